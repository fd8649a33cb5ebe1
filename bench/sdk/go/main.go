// Point reads one at a time, or new entities by transactions of 100, with aztables; see bench/src/client/sdk.rs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

func env(name string) string { return os.Getenv("BENCH_" + name) }

func number(name string) int {
	value, err := strconv.Atoi(env(name))
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func get(table *aztables.Client) int {
	seconds, err := strconv.ParseFloat(env("SECONDS"), 64)
	check(err)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	things, entities := 0, number("ENTITIES")
	for time.Now().Before(end) {
		index := rand.Intn(entities)
		_, err := table.GetEntity(context.Background(), fmt.Sprintf("p%06d", index/1000), fmt.Sprintf("r%09d", index), nil)
		check(err)
		things++
	}
	return things
}

func entity(index int) []byte {
	when := aztables.EDMDateTime(time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.UTC))
	body, err := json.Marshal(aztables.EDMEntity{
		Entity: aztables.Entity{PartitionKey: fmt.Sprintf("b%06d", index/100%1000), RowKey: fmt.Sprintf("r%09d", index)},
		Properties: map[string]any{
			"Count": int32(100000), "Active": true, "Price": 19.99, "Total": aztables.EDMInt64(9007199254740993),
			"When": when, "Text": strings.Repeat("x", 222),
		},
	})
	check(err)
	return body
}

func bulk(table *aztables.Client) int {
	start, count := number("BULK_START"), number("BULK_ENTITIES")
	firsts := make(chan int)
	var workers sync.WaitGroup
	for range number("PARALLEL") {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for first := range firsts {
				actions := make([]aztables.TransactionAction, 100)
				for at := range actions {
					actions[at] = aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: entity(first + at)}
				}
				_, err := table.SubmitTransaction(context.Background(), actions, nil)
				check(err)
			}
		}()
	}
	for first := start; first < start+count; first += 100 {
		firsts <- first
	}
	close(firsts)
	workers.Wait()
	return count
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	credential, err := aztables.NewSharedKeyCredential(env("ACCOUNT"), env("KEY"))
	check(err)
	service, err := aztables.NewServiceClientWithSharedKey(env("ENDPOINT"), credential, nil)
	check(err)
	table := service.NewClient(env("TABLE"))
	started, before := time.Now(), cpu()
	var things int
	if env("TASK") == "get" {
		things = get(table)
	} else {
		things = bulk(table)
	}
	fmt.Printf("{\"things\":%d,\"seconds\":%f,\"cpu_seconds\":%f}\n", things, time.Since(started).Seconds(), cpu()-before)
}
