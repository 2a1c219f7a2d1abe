package top

import (
	"bytes"
	"io"

	"github.com/redlock-go/redlock/internal/overview"
)

// printColumns is where the sentences above the table break, in a pipe.
const printColumns = 120

// Print writes a snapshot as text without escape sequences, all rows and whole cells, in one call of Write.
func Print(to io.Writer, s *overview.Snapshot) error {
	var text bytes.Buffer
	write := func(l line) { text.WriteString(l.String() + "\n") }
	for _, l := range header(s, s.Taken, printColumns) {
		write(l)
	}
	all := items(s, s.Taken, natural(nil))
	var rows []cells
	for i := range all {
		if all[i].title == "" {
			rows = append(rows, all[i].cells)
		}
	}
	text.WriteByte('\n')
	if len(rows) == 0 {
		write(line{{nothing(s), plain}})
	} else {
		w := natural(rows)
		write(heading(w))
		for i := range all {
			write(all[i].line(w))
		}
	}
	_, err := to.Write(text.Bytes())
	return err
}
