package endpoint

import "strings"

// WithoutUser returns a text that may be a URL without its user and password: the name of a node in messages.
func WithoutUser(text string) string {
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return text
	}
	if scheme, rest, found := strings.Cut(text[:at], "://"); found {
		if scheme == "unix" && strings.HasPrefix(rest, "/") {
			return text // a path
		}
		return scheme + "://…" + text[at:]
	}
	if strings.Contains(text[:at], ":") && !strings.HasPrefix(text, "/") {
		return "…" + text[at:]
	}
	return text
}
