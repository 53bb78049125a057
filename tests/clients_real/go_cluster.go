// Adds orders to many streams of a region of several shards with go-redis, reads them in a group and acknowledges them;
// prints what was read, and at the end how many were pending.
package main

import (
	"fmt"
	"os"

	"gopkg.in/redis.v5"
)

const streams = 20

func main() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: os.Args[1:]})
	defer client.Close()
	ask := func(words ...interface{}) interface{} {
		command := redis.NewCmd(words...)
		if err := client.Process(command); err != nil && err != redis.Nil {
			panic(fmt.Sprintf("%v: %v", words, err))
		}
		return command.Val()
	}
	for number := 0; number < streams; number++ {
		key := fmt.Sprintf("orders-%d", number)
		ask("xgroup", "create", key, "billing", "0", "mkstream")
		for order := 0; order < 10; order++ {
			ask("xadd", key, "*", "order", fmt.Sprintf("%d-%d", number, order))
		}
	}
	pending := int64(0)
	for number := 0; number < streams; number++ {
		key := fmt.Sprintf("orders-%d", number)
		reply := ask("xreadgroup", "group", "billing", "alice", "streams", key, ">")
		entries := reply.([]interface{})[0].([]interface{})[1].([]interface{})
		for _, entry := range entries {
			pair := entry.([]interface{})
			fmt.Println("handled", pair[1].([]interface{})[1])
			ask("xack", key, "billing", pair[0])
		}
		pending += ask("xpending", key, "billing").([]interface{})[0].(int64)
	}
	fmt.Println("pending", pending)
}
