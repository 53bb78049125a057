/* A producer and a consumer with hiredis: `hiredis_consumer EAST_PORT WEST_PORT`.
 *
 * It adds orders in both regions, reads a group in the east in batches, and acknowledges each batch. With the batch
 * BATCHES_BEFORE in hand it says so and waits for a line; by then the east is down, so it moves to the west, and goes
 * on until a read is empty. Every line `handled ORDER` is one call of its handler.
 */

#include <hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 10, BATCHES_BEFORE = 7, EAST_ORDERS = 60, WEST_ORDERS = 40, LATER_ORDERS = 50 };

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static redisContext *region_at(const char *port)
{
    struct timeval patience = {60, 0};
    redisContext *region = redisConnectWithTimeout("127.0.0.1", atoi(port), patience);
    if (region == NULL || region->err)
        die(region ? region->errstr : "out of memory");
    redisSetTimeout(region, patience);
    return region;
}

/* XADD as a pipeline: all requests, then all replies. */
static void produce(redisContext *region, const char *name, int count)
{
    for (int number = 0; number < count; number++)
        redisAppendCommand(region, "XADD orders * order %s-%d", name, number);
    for (int number = 0; number < count; number++) {
        redisReply *reply = NULL;
        if (redisGetReply(region, (void **)&reply) != REDIS_OK || reply->type != REDIS_REPLY_STRING)
            die("XADD was not answered by an ID");
        freeReplyObject(reply);
    }
}

static void create_group(redisContext *region)
{
    redisReply *reply = redisCommand(region, "XGROUP CREATE orders billing 0 MKSTREAM");
    if (reply == NULL || (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSYGROUP", 9) != 0))
        die("the group cannot be created");
    freeReplyObject(reply);
}

/* One batch, or an empty one; NULL if the region does not answer. */
static redisReply *read_batch(redisContext *region)
{
    return redisCommand(region, "XREADGROUP GROUP billing alice COUNT %d BLOCK 100 STREAMS orders >", BATCH);
}

static redisReply *entries_of(redisReply *batch)
{
    return batch->type == REDIS_REPLY_ARRAY ? batch->element[0]->element[1] : NULL;
}

static void handle(redisReply *entries)
{
    for (size_t at = 0; at < entries->elements; at++)
        printf("handled %s\n", entries->element[at]->element[1]->element[1]->str);
}

/* XACK of a whole batch by an argument vector; returns whether the region answered. */
static int acknowledge(redisContext *region, redisReply *entries)
{
    const char *argv[3 + BATCH] = {"XACK", "orders", "billing"};
    for (size_t at = 0; at < entries->elements; at++)
        argv[3 + at] = entries->element[at]->element[0]->str;
    redisReply *reply = redisCommandArgv(region, 3 + (int)entries->elements, argv, NULL);
    if (reply == NULL)
        return 0;
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != (long long)entries->elements)
        die("XACK did not acknowledge the batch");
    freeReplyObject(reply);
    return 1;
}

static void await_line(const char *saying)
{
    char line[16];
    printf("%s\n", saying);
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        die("nobody answers");
}

/* Reads and acknowledges until a read is empty; with the batch `pausing_at` in hand, waits for a line before. */
static int consume(redisContext *region, int pausing_at)
{
    for (int batches = 1;; batches++) {
        redisReply *batch = read_batch(region);
        if (batch == NULL)
            return 0;
        redisReply *entries = entries_of(batch);
        if (entries == NULL) {
            freeReplyObject(batch);
            return 1;
        }
        handle(entries);
        if (batches == pausing_at)
            await_line("in hand");
        int answered = acknowledge(region, entries);
        freeReplyObject(batch);
        if (!answered)
            return 0;
    }
}

int main(int count, char **arguments)
{
    if (count != 3)
        die("usage: hiredis_consumer EAST_PORT WEST_PORT");
    redisContext *east = region_at(arguments[1]);
    redisContext *west = region_at(arguments[2]);
    create_group(east);
    produce(east, "east", EAST_ORDERS);
    produce(west, "west", WEST_ORDERS);
    await_line("produced");
    if (consume(east, BATCHES_BEFORE))
        die("the east still answers");
    printf("moved: %s\n", east->errstr);
    redisFree(east);
    create_group(west);
    produce(west, "later", LATER_ORDERS);
    if (!consume(west, 0))
        die("the west does not answer");
    redisFree(west);
    return 0;
}
