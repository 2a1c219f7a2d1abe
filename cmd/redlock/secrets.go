package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/loginreply"
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

// shown returns a value of INFO, if it is not a part of the password.
func (f *nodeFacts) shown(value string) string {
	if !f.secrets.In(value) || slices.Contains(plainWords, value) {
		return value
	}
	return "(" + loginreply.Notice + ")"
}

// plainWords are values of INFO whose meaning must not depend on the password.
var plainWords = strings.Fields("master slave replica sentinel standalone cluster yes no ok err noeviction up down")
