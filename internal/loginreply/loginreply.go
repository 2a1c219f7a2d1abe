package loginreply

import (
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

// codes are those of error replies.
var codes = strings.Fields("ERR WRONGPASS NOAUTH NOPERM DENIED LOADING BUSY MASTERDOWN READONLY OOM MISCONF NOSCRIPT NOREPLICAS WRONGTYPE " +
	"MOVED ASK CROSSSLOT CLUSTERDOWN TRYAGAIN NOPROTO")

// Withhold returns what can be shown of the reply to a login that was refused: a constant text or a code that is known,
// and the notice if that is not all of it.
func Withhold(reply string) string {
	for _, text := range constants {
		rest, found := strings.CutPrefix(reply, text)
		switch {
		case found && rest == "":
			return reply
		case found && !isWordByte(rest[0]):
			return text + " (" + Notice + ")"
		}
	}
	if code, _, _ := strings.Cut(reply, " "); slices.Contains(codes, code) {
		return code + " (" + Notice + ")"
	}
	return Notice
}

func isWordByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
