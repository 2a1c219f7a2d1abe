// Redlock is the command line tool: it runs commands under locks over several independent
// Redis masters, shows the locks' holders, and examines the masters.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs the command line and returns the exit code.
func execute(args []string, out, log io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(log)
	err := root.Execute()
	if err == nil {
		return 0
	}
	var end *exit
	if !errors.As(err, &end) { // cobra's own: an unknown command, missing arguments; it may have several lines
		fmt.Fprintf(log, "redlock: %v\nTry redlock --help\n", err)
		return codeUsage
	}
	if end.why != nil {
		fmt.Fprintln(log, message(end.why))
	}
	if end.hint != "" {
		fmt.Fprintln(log, end.hint)
	}
	return end.code
}
