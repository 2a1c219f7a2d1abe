package top

import "github.com/redlock-go/redlock/internal/overview"

// helpSentences say what stands where.
var helpSentences = []string{
	"The first line says whether locks are available, and how many masters may still fail. " +
		"Below it stand the masters that vote, with their round trips, and those that do not: since when, why, " +
		"and what to do.",
	"The locks stand by need: those that callers wait for, the longest first; those to look at; the rest. " +
		"The lines below a semaphore are the holders of its permits, by slot.",
	"SINCE is by the holder's clock. LEFT is when the lock ends unless it is renewed: " +
		"↻ its holder renews it, ↓ nobody does.",
}

// helpKeys are the keys, and what they do.
var helpKeys = [][2]string{
	{"/", "filter by a part of a name, or of a holder's or a waiter's label"},
	{"s", "sort: by need, name, since, left, waiters"},
	{"↑ ↓ j k", "choose a lock; also Page Up, Page Down, Home, End"},
	{"Enter", "details: the holders, the word of each master, the wait queue"},
	{"u", "force-unlock, as redlock unlock --force: the name must be typed in full"},
	{"Esc", "back; in the table: no filter"},
	{"Ctrl-Z", "stop; fg goes on"},
	{"q, Ctrl-C", "quit"},
}

// helpLines returns the page of help.
func helpLines(columns int) (all []line) {
	for _, text := range helpSentences {
		for _, part := range wrap(text, columns) {
			all = append(all, line{{part, plain}})
		}
		all = append(all, nil)
	}
	for _, k := range helpKeys {
		all = append(all, line{{pad(k[0], 11, false), bold}, {k[1], plain}}.cut(columns))
	}
	all = append(all, nil, line{{"VOTES has a sign for each master, in their order:", plain}}.cut(columns))
	for _, w := range overview.Words() {
		all = append(all, line{{"  ", plain}, signOf(w.Sign()), {" " + w.Sign().Text, plain}}.cut(columns))
	}
	return all
}
