package protocol_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	random = "ABCDEFGHIJKLMNOPQRSTUVWX27"
	client = "ABCDEFGHIJKLMN27"
)

var instant = time.Date(2026, 11, 25, 15, 0, 0, 0, time.UTC)

func TestLabelFollowsTheIDOfAnOwner(t *testing.T) {
	for _, label := range []string{"", "web-1:4711", "a@b", "@", "@@", "héllo"} {
		require.Equal(t, label, protocol.LabelOf(protocol.Owner(randomID, instant, "", label)))
	}
	require.Len(t, protocol.Owner(randomID, instant, "", ""), 26, "no label, no separator")
}

func TestOwnerThatIsToBeToldHasALabelAsAnyOther(t *testing.T) {
	for _, label := range []string{"", "web-1:4711", "a@b", "@", "!", random + "!" + client, "héllo"} {
		plain, told := protocol.Owner(randomID, instant, "", label), protocol.Owner(randomID, instant, client, label)
		require.Equal(t, label, protocol.LabelOf(told))
		require.Equal(t, plain[:26], protocol.IDOf(told))
		require.True(t, protocol.IsNotifiable(told))
		require.False(t, protocol.IsNotifiable(plain), plain)
	}
}

func TestOwnerHasTheSecondAtWhichItsAttemptBegan(t *testing.T) {
	for _, at := range []time.Time{instant, time.Unix(1, 0), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<35-1, 0)} {
		for _, off := range []time.Duration{-500 * time.Millisecond, -time.Millisecond, 0, 499 * time.Millisecond} {
			for _, label := range []string{"", "web-1:4711", "@"} {
				require.True(t, at.Equal(protocol.SinceOf(protocol.Owner(randomID, at.Add(off), "", label))), "%v%+v", at, off)
				require.True(t, at.Equal(protocol.SinceOf(protocol.Owner(randomID, at.Add(off), client, label))), "%v%+v", at, off)
			}
		}
	}
}

func TestClockThatDoesNotFitIntoAnOwnerIsNotShown(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1, 0), time.Unix(1<<35, 0), time.Unix(math.MaxInt32<<10, 0)} {
		owner := protocol.Owner(randomID, at, "", "me")
		require.Zero(t, protocol.SinceOf(owner), "%v", at)
		require.Equal(t, "me", protocol.LabelOf(owner))
	}
}

// Values are cut to their first bytes: a node names the owners of a semaphore's slots by four, and the tool shows six.
func TestOwnersDifferFromTheirFirstBytesOn(t *testing.T) {
	const owners = 4096
	values := make([]map[byte]bool, 19) // at each place
	for i := range values {
		values[i] = make(map[byte]bool)
	}
	seen := make(map[string]bool)
	for range owners {
		owner := protocol.Owner(system.OSRandom{}.ID("attempt"), instant, "", "")
		seen[owner[:4]] = true
		for i := range values {
			values[i][owner[i]] = true
		}
		require.Equal(t, protocol.Owner(randomID, instant, "", "")[19:], owner[19:], "the clock of one instant")
	}
	assert.Greater(t, len(seen), owners-100, "of a million, some eight are expected to have a name that another has")
	for i, all := range values {
		assert.Len(t, all, 32, "character %d has five random bits", i)
	}
}

func TestOwnerIsMadeByOneAllocation(t *testing.T) {
	var owner string
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { owner = protocol.Owner(randomID, instant, "", "web-1:4711") }))
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { owner = protocol.Owner(randomID, instant, "", "") }))
	require.Zero(t, testing.AllocsPerRun(100, func() { protocol.SinceOf(owner) }))
}

func TestTransferValueHasTheClockOfTheOwner(t *testing.T) {
	owner := protocol.Owner(randomID, instant, client, "old")
	secret := protocol.Secret(idOf("777777ABCDEFGHIJKLMNOPQRST"), owner)
	value := protocol.TransferValue(secret, "old")
	require.True(t, instant.Equal(protocol.SinceOf(value)))
	require.Equal(t, "old", protocol.LabelOf(value))
	require.NotEqual(t, secret[:19], value[:19], "callers see the value, and must not see the secret")
	other := protocol.TransferValue(protocol.Secret(idOf("777777ABCDEFGHIJKLMNOPQRXX"), owner), "old")
	require.Equal(t, value, protocol.TransferValue(protocol.Secret(idOf("777777ABCDEFGHIJKLMXXXXXXX"), owner), "old"), "the clock is in the place of what follows")
	require.Equal(t, value, other)
	require.NotEqual(t, value, protocol.TransferValue(protocol.Secret(idOf("777777ABCDEFGHIJKLXNOPQRST"), owner), "old"))
}

func TestTransferValueOfAForgedSecretHasTheFormOfAnOwner(t *testing.T) {
	for _, secret := range []string{"", "x", random[:19] + "\x1b[2J@@\n", strings.Repeat("A", 25), strings.Repeat("A", 27), owner("them")} {
		value := protocol.TransferValue(secret, "me")
		require.Regexp(t, "^[A-Z2-7]{26}@me$", value, "%q", secret)
	}
}

// idOf returns the ID that is this text.
func idOf(text string) (id system.ID) {
	copy(id[:], text)
	return id
}

var randomID = idOf(random)

func owner(label string) string { return protocol.Owner(randomID, instant, "", label) }

func TestValuesOfOtherProgramsHaveNoLabelAndNoClock(t *testing.T) {
	for _, value := range []string{
		"", "@", "me@example.com", strings.Repeat("A", 25) + "@me", strings.Repeat("A", 27) + "@me",
		strings.Repeat("@", 27) + "me", strings.Repeat("A", 25) + "-@me", protocol.Shared, protocol.Reservation + "00017000@x",
		strings.Repeat("A", 26) + "!", strings.Repeat("A", 26) + "!@me", strings.Repeat("A", 26) + "!" + strings.Repeat("A", 15) + "@me",
		strings.Repeat("A", 26) + "!" + strings.Repeat("A", 17) + "@me", strings.Repeat("-", 26) + "!" + strings.Repeat("A", 16),
		strings.Repeat("A", 26) + "!" + strings.Repeat("-", 16),
	} {
		require.Empty(t, protocol.LabelOf(value), "%q", value)
		require.Zero(t, protocol.SinceOf(value), "%q", value)
		require.False(t, protocol.IsNotifiable(value), "%q", value)
	}
}

func TestValuesThatLookLikeAnOwnerHaveNoClock(t *testing.T) {
	for what, value := range map[string]string{
		"a ULID": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "a UUID": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "base64 of 16 bytes": "ABCDEFGHIJKLMNOPQRSTUV==",
		"hexadecimal": "0123456789abcdef0123456789", "small letters": strings.ToLower(random), "longer": random + "A", "another mark": random + ":me",
		"a resting lock's": protocol.Resting + random, "nobody's": protocol.Nobody + random, "other digits in the clock": random[:19] + "AAAAA08",
	} {
		require.Zero(t, protocol.SinceOf(value), what)
	}
}

func TestTicketsOfASemaphoreSayItsLimitAndHowManyTheyWant(t *testing.T) {
	const before = "0000000000000001-ABCDEFGHIJKLMNOP-0000000001"
	for ticket, want := range map[string][2]int{
		before + protocol.PermitsSuffix(3, 2): {3, 2}, before + protocol.PermitsSuffix(256, 256): {256, 256},
		before + "*2": {0, 2}, // of an earlier version
		before:        {}, before + "r": {}, before + "+": {}, before + "/3": {}, before + "/x*1": {0, 1}, before + "/99999*1": {0, 1}, before + "/-3*1": {0, 1},
	} {
		require.Equal(t, want, [2]int{protocol.LimitOf(ticket), protocol.PermitsOf(ticket)}, ticket)
	}
}
