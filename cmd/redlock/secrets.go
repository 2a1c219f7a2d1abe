package main

import (
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/endpoint"
)

// withoutUsers returns a message without users and passwords of URLs on the command line. Errors repeat such a URL if
// it stands where something else is expected.
func withoutUsers(text string, args []string) string {
	for _, arg := range args {
		shown := endpoint.WithoutUser(arg)
		if _, value, found := strings.Cut(arg, "="); found {
			text = withoutUsers(text, []string{value})
		}
		if shown != arg && strings.Contains(arg, "://") {
			text = strings.ReplaceAll(text, arg, shown)
			text = strings.ReplaceAll(text, strconv.Quote(arg), strconv.Quote(shown))
		}
	}
	return text
}
