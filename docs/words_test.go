package docs_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// privateWord is a pattern of old words, and the words to use instead.
type privateWord struct {
	pattern *regexp.Regexp
	instead string
}

func private(pattern, instead string) privateWord {
	return privateWord{regexp.MustCompile(pattern), instead}
}

// privateWords are words that this repository once used in a sense of its own, and turns of
// phrase that must be read twice. The patterns are matched against lines as splitWords
// returns them.
var privateWords = []privateWord{
	private(`\b(ears?|deaf|hears?|heard|unheard|hearing)\b`, "subscription, receive"),
	private(`\bheralds?\b`, "event queue"),
	private(`\bheirs?\b`, "watcher"),
	private(`\bheed(s|ed|ing|ful)?\b`, "HandleError, react to, use"),
	private(`\bmisfits?\b`, "unfit node"),
	private(`\bhasty\b`, "retriesBeforeBackoff"),
	private(`\bhurry\b`, "minRenewRetry"),
	private(`\bworth a line\b`, "failuresBeforeLog"),
	private(`\bstrays?\b`, "orphan record"),
	private(`\bworried\b`, "quarantineLogged, downLogged"),
	private(`\bzombies?\b`, "old connection"),
	private(`\b(debts?|indebted|owe[ds]?|owing)\b`, "undo, unconfirmed"),
	private(`\bbids?\b`, "parked attempt"),
	private(`\bclaim time\b`, "reservation's ttl"),
	private(`\bbarred\b`, "in quarantine, does not vote"),
	private(`\blapse[sd]?\b`, "end, expire"),
	private(`\boutvoted\b`, "HeldElsewhere"),
	private(`\bsuspicions?\b`, "Renewer"),
	private(`\bask plainly\b`, "fast path"),
	private(`\b(steps? out|leave lines)\b`, "leave the queue"),
	private(`\bwrite-backs?\b|\blift(s|ed|ing)?\b`, "raise"),
	private(`\b(stands?|stood|standing|waits?|waited|waiting|first|next|place|places) in line\b`, "wait queue, position"),
	private(`\bmanieth\b`, "n-th"),
	private(`\bwhoever\b`, "the caller, waiter, holder, client or node that …"),
	private(`\bof who\b|\bwho waits?\b|\bthose who\b`, "callers, waiters, holders, clients or nodes that …"),
	private(`(^|[.;:] |// |-- |\*\*)who [a-z]+\b[^?]*$`, "the caller, waiter, holder, client or node that …"),
	private(`\b(tells?|telling) (that|whether|if|why|how|which|who|what)\b`, "reports whether, returns, says why"),
	private(`\bnotes (that|whether|when|what)\b`, "records"),
}

// protocolNames are names of keys and messages at the servers. They are not changed, since
// clients of several versions meet there; docs/protocol.md explains each once. The last one
// names a random draw: another name would give each seed of the simulation another history.
var protocolNames = []string{
	"redlock::bid", `"bid"`, `"bid:"`, "'bid'", "`bid`",
	`"barred"`, "'barred'", "`barred`",
	`"to hear "`,
}

// wordsExcepted are files with old words: the history, and this list.
var wordsExcepted = []string{"CHANGELOG.md", "docs/words_test.go"}

var (
	hump    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronym = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
)

// splitWords returns a line in lower case, without names of the protocol, and with its
// identifiers split into words.
func splitWords(line string) string {
	for _, name := range protocolNames {
		line = strings.ReplaceAll(line, name, "")
	}
	line = hump.ReplaceAllString(line, "$1 $2")
	line = acronym.ReplaceAllString(line, "$1 $2")
	return strings.ToLower(strings.ReplaceAll(line, "_", " "))
}

// privateWordIn returns the first private word of a line, with the words to use instead.
func privateWordIn(line string) (word, instead string) {
	line = splitWords(line)
	for _, p := range privateWords {
		if found := p.pattern.FindString(line); found != "" {
			return strings.TrimSpace(found), p.instead
		}
	}
	return "", ""
}

// The test prints all places, file by file.
func TestNoFileHasPrivateWords(t *testing.T) {
	for _, file := range files(t) {
		isText := strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".lua") || strings.HasSuffix(file, ".md")
		if !isText || slices.Contains(wordsExcepted, file) {
			continue
		}
		var found []string
		if word, instead := privateWordIn(file); word != "" {
			found = append(found, fmt.Sprintf("its name: %q: use %s", word, instead))
		}
		for i, line := range strings.Split(read(t, file), "\n") {
			if word, instead := privateWordIn(line); word != "" {
				found = append(found, fmt.Sprintf("line %d: %q: use %s: %s", i+1, word, instead, strings.TrimSpace(line)))
			}
		}
		if len(found) > 0 {
			t.Errorf("%s has %d private words:\n\t%s", file, len(found), strings.Join(found, "\n\t"))
		}
	}
}

func TestPrivateWordsAreFoundInIdentifiersToo(t *testing.T) {
	for line, want := range map[string]string{
		"func (c *call) heedful() {":                   "heedful",
		"const worthALine = 2":                         "worth a line",
		"n.heraldOf(x)":                                "herald",
		"TestTheHeirIsTold":                            "heir",
		"// An attempt of who does not ask":            "of who",
		"**Who dies** keeps its locks":                 "who dies",
		"their locks expire":                           "",
		"the elapsed time":                             "",
		"allowed, borrowed":                            "",
		"redis.call('DEL', 'redlock::bid:' .. ticket)": "",
		"Who holds the lock?":                          "",
	} {
		word, _ := privateWordIn(line)
		if want == "" {
			require.Empty(t, word, line)
		} else {
			require.Contains(t, word, want, line)
		}
	}
}
