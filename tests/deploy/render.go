// Renders templates of the chart as helm does, with its functions that the chart uses: values as JSON on the standard
// input, paths of templates as arguments.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/template"
)

func toInt(value interface{}) int {
	switch number := value.(type) {
	case float64:
		return int(number)
	case int:
		return number
	}
	panic(fmt.Sprintf("%v is no number", value))
}

func main() {
	values := map[string]interface{}{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		panic(err)
	}
	functions := template.FuncMap{
		"quote": func(value interface{}) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"int":   toInt,
		"add":   func(one, other interface{}) int { return toInt(one) + toInt(other) },
		"until": func(count int) []int {
			numbers := make([]int, count)
			for at := range numbers {
				numbers[at] = at
			}
			return numbers
		},
	}
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		made := template.Must(template.New(path).Option("missingkey=error").Funcs(functions).Parse(string(text)))
		fmt.Println("---")
		if err := made.Execute(os.Stdout, map[string]interface{}{"Values": values}); err != nil {
			panic(err)
		}
	}
}
