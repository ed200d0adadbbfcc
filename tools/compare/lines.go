// What all programs share: a line of JSON is asked, and a line of JSON answers.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
)

// converse answers every line that is read.
func converse[Question, Answer any](out io.Writer, decide func(Question) Answer) {
	reader := bufio.NewScanner(os.Stdin)
	reader.Buffer(make([]byte, 1<<20), 1<<28)
	writer := json.NewEncoder(out)
	for reader.Scan() {
		var asked Question
		must(json.Unmarshal(reader.Bytes(), &asked))
		must(writer.Encode(decide(asked)))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
