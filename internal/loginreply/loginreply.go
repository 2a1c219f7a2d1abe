package loginreply

import (
	"regexp"
	"slices"
	"strings"
)

// Notice stands in the place of a text that is not shown.
const Notice = "the text is not shown, since it may repeat the password"

// constants are how texts of servers begin that do not depend on what the client sent, with their codes. IsPermanent in
// internal/node recognizes wrong passwords by some of them.
var constants = []string{
	"WRONGPASS invalid username-password pair or user is disabled.",
	"WRONGPASS invalid username-password pair",
	"NOAUTH Authentication required.",
	"ERR invalid password",
	"ERR invalid username-password pair",
	"ERR Client sent AUTH, but no password is set",
	"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
	"ERR AUTH",
	"ERR Client sent AUTH",
	"ERR max number of clients reached",
	"ERR max number of clients",
	"ERR unknown command",
	"ERR wrong number of arguments",
	"ERR syntax error",
	"ERR DB index is out of range",
	"ERR invalid DB index",
	"ERR No such client",
	"DENIED Redis is running in protected mode",
	"LOADING Redis is loading the dataset in memory",
}

// codes are those of error replies. They are shown also if they are a part of the password.
var codes = strings.Fields("ERR WRONGPASS NOAUTH NOPERM DENIED LOADING BUSY MASTERDOWN READONLY OOM MISCONF NOSCRIPT NOREPLICAS WRONGTYPE " +
	"MOVED ASK CROSSSLOT CLUSTERDOWN TRYAGAIN NOPROTO")

// codeLike is what other codes look like.
var codeLike = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,30}$`)

// Withhold returns what can be shown of an error reply: a constant text or the code, and the notice if that is
// not all of it. secrets may be nil, if nothing is known of the password.
func Withhold(reply string, secrets *Secrets) string {
	for _, text := range constants {
		rest, found := strings.CutPrefix(reply, text)
		switch {
		case found && rest == "":
			return reply
		case found && !isWordByte(rest[0]):
			return text + " (" + Notice + ")"
		}
	}
	if code := codeOf(reply, secrets); code != "" {
		return code + " (" + Notice + ")"
	}
	return Notice
}

// codeOf returns the reply's first word if that is a code; "" if it is not, or may be a part of a secret.
func codeOf(reply string, secrets *Secrets) string {
	word, _, _ := strings.Cut(reply, " ")
	switch {
	case slices.Contains(codes, word):
		return word
	case secrets == nil || !codeLike.MatchString(word) || secrets.In(word) || secrets.has(word):
		return ""
	}
	return word
}
