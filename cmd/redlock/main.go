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
func execute(args []string, out, stderr io.Writer) int {
	var end *exit
	defer func() {
		if end != nil && end.by != nil {
			endBy(end.by)
		}
	}()
	log := newMessages(stderr)
	defer log.end()
	root, printed := newRoot(), &output{Writer: out}
	root.SetArgs(args)
	root.SetOut(printed)
	root.SetErr(log)
	refuseOtherShells(root)
	err := root.Execute()
	if printed.err != nil && (err == nil || errors.Is(err, printed.err)) {
		err = &exit{code: codeDanger, why: fmt.Errorf("the output could not be written: %w", printed.err)}
	}
	if err == nil {
		return 0
	}
	if !errors.As(err, &end) { // cobra's own: an unknown command, missing arguments; it may have several lines
		fmt.Fprintf(log, "redlock: %s\nTry redlock --help\n", withoutUsers(err.Error(), args))
		return codeUsage
	}
	if end.why != nil {
		fmt.Fprintln(log, withoutUsers(message(end.why), args))
	}
	if end.hint != "" {
		fmt.Fprintln(log, end.hint)
	}
	return end.code
}

// output is where a command prints its result. It keeps the first error: a result that nobody
// got is a failure, whatever was done.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}
