package overview

// Tone is the colour of a sign. Each face chooses its own four.
type Tone string

// The tones.
const (
	Good   Tone = "good"
	Quiet  Tone = "quiet"
	Warns  Tone = "warns"
	Alarms Tone = "alarms"
)

// Sign shows a word or a direction in all faces.
type Sign struct {
	Glyph string
	ASCII string // in its place, where a terminal does not have it
	Tone  Tone
	Text  string // what it means
}

// allWords has all words, in the order in which faces explain their signs.
var allWords = []Word{SaysHolder, SaysFree, SaysOther, SaysResting, SaysReserved, SaysQuarantined, SaysNothing}

var wordSigns = map[Word]Sign{
	SaysHolder:      {"●", "*", Good, "it has the holder's key"},
	SaysFree:        {"○", ".", Quiet, "it has no key"},
	SaysOther:       {"◆", "#", Warns, "it has another owner's key"},
	SaysResting:     {"◐", "z", Quiet, "it has the key of a lock that rests"},
	SaysReserved:    {"◌", "k", Quiet, "it keeps the lock for a waiter"},
	SaysQuarantined: {"⊘", "q", Warns, "it does not vote yet"},
	SaysNothing:     {"✕", "x", Alarms, "it does not answer"},
}

var directionSigns = map[Direction]Sign{
	Renews:   {"↻", "+", Good, "its holder renews it"},
	RunsDown: {"↓", "-", Warns, "nobody renews it"},
}

// Words returns all words, in the order in which faces explain their signs.
func Words() []Word { return append([]Word(nil), allWords...) }

// Sign returns the word's sign.
func (w Word) Sign() Sign { return wordSigns[w] }

// Sign returns the sign that stands behind the time left; the zero Sign if there is none.
func (d Direction) Sign() Sign { return directionSigns[d] }
