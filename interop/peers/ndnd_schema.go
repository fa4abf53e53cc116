// Checks names by a trust schema with NDNd's library: "yes" or "no" for each line "PACKET KEY" of standard input.
//
// Usage: schema FILE; exit code 1 if NDNd can't parse the file.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	enc "github.com/named-data/ndnd/std/encoding"
	"github.com/named-data/ndnd/std/security/trust_schema"
)

func main() {
	bytes, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	schema, err := trust_schema.NewLvsSchema(bytes)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		uris := strings.Fields(lines.Text())
		packet, err1 := enc.NameFromStr(uris[0])
		key, err2 := enc.NameFromStr(uris[1])
		if err1 != nil || err2 != nil {
			fmt.Println("no name in", lines.Text())
			os.Exit(1)
		}
		if schema.Check(packet, key) {
			fmt.Println("yes")
		} else {
			fmt.Println("no")
		}
	}
}
