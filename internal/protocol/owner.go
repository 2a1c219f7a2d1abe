package protocol

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// An owner is the value that marks one attempt at the nodes: its id, then for some a mark, then for most a
// label. The id has 19 random characters, and 7 of the holder's wall clock. The clock stands last: owners are
// compared, and cut, from their first byte on, so what decides there is random. docs/safety.md says why 19 are
// enough.
const (
	idLength     = randomLength + clockLength
	randomLength = 19 // 95 bits
	clockLength  = 7  // 35 bits: seconds, until the year 3058

	// clientLength is the length of a client's name in tickets and owners: letters and digits.
	clientLength = 16

	// wantedMark stands behind the id of an owner that is to be told that others want the lock. The
	// name of its client follows.
	wantedMark = "!"
)

// Owner returns the owner of an attempt that begins at an instant of its client's wall clock. Of random, which
// has 26 random characters, it takes the first 19. client is told that others want the lock; "": it is not. label may be
// empty.
func Owner(random system.ID, at time.Time, client, label string) string {
	clock := clockText(at)
	mark, separator := "", ""
	if client != "" {
		mark = wantedMark
	}
	if label != "" {
		separator = "@"
	}
	return string(random[:randomLength]) + string(clock[:]) + mark + client + separator + label
}

// clockText returns the seconds since 1970, to the nearest one; zeros for an instant that seven characters do not hold.
func clockText(at time.Time) (text [clockLength]byte) {
	seconds := (at.UnixMilli() + 500) / 1000
	if seconds < 0 || seconds >= 1<<(5*clockLength) {
		seconds = 0
	}
	for i := clockLength - 1; i >= 0; i-- {
		text[i] = system.Digits[seconds%32]
		seconds /= 32
	}
	return text
}

// SinceOf returns when the attempt of an owner began, to the second, by the wall clock of its client. It is
// zero for a value that another program wrote, and where that clock showed 1970.
func SinceOf(owner string) time.Time {
	if _, _, is := cutOwner(owner); !is {
		return time.Time{}
	}
	var seconds int64
	for i := range idLength {
		digit := strings.IndexByte(system.Digits, owner[i])
		if digit < 0 {
			return time.Time{}
		}
		if i >= randomLength {
			seconds = seconds<<5 | int64(digit)
		}
	}
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// Secret returns the secret of a transfer: 19 random characters of random, then the clock of the owner that hands its
// lease off.
func Secret(random system.ID, owner string) string {
	return string(random[:randomLength]) + owner[randomLength:idLength]
}

// TransferValue returns what a lock's key holds from a transfer on until the lease is resumed: made
// of the secret that the transfer's text has, in the form of an owner. It does not reveal the random part of the
// secret, so callers may see it. Its clock is the secret's: it shows since when the lock is held.
func TransferValue(secret, label string) string {
	sum := sha256.Sum256([]byte(secret))
	random := base32.StdEncoding.EncodeToString(sum[:])
	clock := random[randomLength:idLength]
	if len(secret) == idLength && IsAlphanumeric(secret) { // else it is not Secret's
		clock = secret[randomLength:]
	}
	if label != "" {
		label = "@" + label
	}
	return random[:randomLength] + clock + label
}

// IDOf returns the id of an owner: what nodes name it by.
func IDOf(owner string) string { return owner[:idLength] }

// cutOwner returns what follows the id of an owner, and its mark if it has one: the label, with "@" before it,
// or nothing. It reports whether the value is an owner; another program may have written it.
func cutOwner(owner string) (rest string, wanted, is bool) {
	if len(owner) < idLength || !IsAlphanumeric(owner[:idLength]) {
		return "", false, false
	}
	rest, wanted = strings.CutPrefix(owner[idLength:], wantedMark)
	if wanted {
		if len(rest) < clientLength || !IsAlphanumeric(rest[:clientLength]) {
			return "", false, false
		}
		rest = rest[clientLength:]
	}
	if rest != "" && rest[0] != '@' {
		return "", false, false
	}
	return rest, wanted, true
}

// IsAlphanumeric reports whether a text has letters and digits alone.
func IsAlphanumeric(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// LabelOf returns the label of an owner; "" if it has none, and of a value that another program
// wrote.
func LabelOf(owner string) string {
	rest, _, _ := cutOwner(owner)
	return strings.TrimPrefix(rest, "@")
}

// IsNotifiable reports whether an owner is to be told that others want the lock.
func IsNotifiable(owner string) bool {
	_, wanted, is := cutOwner(owner)
	return wanted && is
}
