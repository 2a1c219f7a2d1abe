package protocol

import (
	"crypto/fips140"
	"crypto/sha1" //nolint:gosec // what Redis uses
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
)

var (
	settings = NewSettings(10*time.Second, 1, "label")

	ofWaiter = AttemptCall{Owner: "me", Ticket: "ticket", Before: "I before"}
	renewal  = RenewalCall{Owner: "me", Ticket: "ticket", TTL: int64(5000), List: "list"}
)

// A name's holder wants to be told that others want it: then other keys and arguments go to the scripts.
func TestCallsAboutALock(t *testing.T) {
	const ttl, queue, readers, asked = int64(10_000), "redlock::queue:p:x", "redlock::readers:p:x", "redlock::asked:p:x"
	stripe := StripeArg("p:x")
	k, key := NewKeys("p:", "x", false)
	require.Equal(t, "p:x", key)
	told, _ := NewShareKeys("p:", "x", true)
	share, _ := NewShareKeys("p:", "x", false)
	for name, c := range map[string]struct{ want, got []any }{
		"acquire":          {[]any{Acquire.SHA(), "2", key, "record", "me", ttl, stripe, "1", "ticket", "label", "I before", "150"}, k.Acquire(&settings, &ofWaiter, "record", "150")},
		"raise":            {[]any{Raise.SHA(), "2", key, "record", "me", stripe, "7", "1"}, k.Raise(&settings, RaiseCall{"me", 7}, "record")},
		"renew":            {[]any{Renew.SHA(), "3", key, "record", MembersKey, "me", int64(5000), "list"}, k.Renew(&settings, renewal, "record")},
		"renew, told":      {[]any{Renew.SHA(), "5", key, "record", MembersKey, queue, asked, "me", int64(5000), "list", "ticket"}, told.Keys.Renew(&settings, renewal, "record")},
		"release":          {[]any{Release.SHA(), "3", key, queue, readers, "me"}, k.Release(&settings, ReleaseCall{Owner: "me"})},
		"leave":            {[]any{Release.SHA(), "3", key, queue, readers, "me", "ticket"}, k.Release(&settings, ReleaseCall{Owner: "me", Ticket: "ticket"})},
		"stay":             {[]any{Release.SHA(), "3", key, queue, readers, "me", "ticket", "label"}, k.Release(&settings, ReleaseCall{Owner: "me", Ticket: "ticket", Stay: true})},
		"passed the queue": {[]any{Release.SHA(), "3", key, queue, readers, "me", ""}, k.Release(&settings, ReleaseCall{Owner: "me", PassedQueue: true})},
		"rest":             {[]any{Rest.SHA(), "3", key, queue, readers, int64(2), "me", "ticket"}, RestAfter(k.Release(&settings, ReleaseCall{Owner: "me", Ticket: "ticket"}), 1001*time.Microsecond)},
		"rested":           {[]any{Rest.SHA(), "3", key, queue, readers, int64(0), "me"}, RestAfter(k.Release(&settings, ReleaseCall{Owner: "me"}), -time.Second)},
		"read": {[]any{Read.SHA(), "4", key, "record", queue, readers, "me", ttl, stripe, "1", "ticket", "label", "I before", "150"},
			share.Acquire(&settings, &ofWaiter, "record", "150")},
		"raise, of a share": {[]any{Raise.SHA(), "3", key, "record", readers, "me", stripe, "7", "1", "1"}, share.Raise(&settings, RaiseCall{"me", 7}, "record")},
		"keep":              {[]any{Keep.SHA(), "5", key, "record", queue, readers, MembersKey, "me", int64(5000), "list", "ticket"}, share.Renew(&settings, renewal, "record")},
		"keep, told":        {[]any{Keep.SHA(), "6", key, "record", queue, readers, MembersKey, asked, "me", int64(5000), "list", "ticket", "1"}, told.Renew(&settings, renewal, "record")},
		"transfer":          {[]any{Transfer.Text(), "2", key, MembersKey, "me", "secret", int64(2), "LIST"}, TransferCall{Key: key, Owner: "me", Value: "secret", TTL: 1001 * time.Microsecond, List: &List{ID: "LIST"}}.Eval()},
		"take back":         {[]any{"1", key, "secret", "me"}, TakeBackCall{Key: key, Value: "secret", Owner: "me"}.Args()},
		"resume":            {[]any{Resume.Text(), "2", key, "record", "secret", "me", ttl, stripe, "1"}, ResumeCall{Keys: &k, Record: "record", Value: "secret", Owner: "me"}.Eval(&settings)},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}

func TestCallsAboutSeveralLocks(t *testing.T) {
	names := []string{"a", "b"}
	k, keys := NewSetKeys("p:", names, false)
	require.Equal(t, []string{"p:a", "p:b"}, keys)
	told, _ := NewSetKeys("p:", names, true)
	stripes := StripeOf("p:a") + "," + StripeOf("p:b")
	const ttl, a, b = int64(10_000), "redlock::queue:p:a", "redlock::queue:p:b"
	for name, c := range map[string]struct{ want, got []any }{
		"acquire": {[]any{AcquireAll.SHA(), 5, "p:a", "p:b", a, b, "record", "me", ttl, stripes, "1", "ticket", "label", "I before", "150"}, k.Acquire(&settings, &ofWaiter, "record", "150")},
		"raise":   {[]any{Raise.SHA(), "3", "p:a", "p:b", "record", "me", stripes, "7", "1"}, k.Raise(&settings, RaiseCall{"me", 7}, "record")},
		"renew":   {[]any{RenewAll.SHA(), "4", "p:a", "p:b", "record", MembersKey, "me", int64(5000), "list"}, k.Renew(&settings, renewal, "record")},
		"renew, told": {[]any{RenewAll.SHA(), 8, "p:a", "p:b", "record", MembersKey, a, b, "redlock::asked:p:a", "redlock::asked:p:b",
			"me", int64(5000), "list", "ticket"}, told.Renew(&settings, renewal, "record")},
		"release": {[]any{ReleaseAll.SHA(), "6", "p:a", "p:b", a, b, "redlock::readers:p:a", "redlock::readers:p:b", "me", "ticket"},
			k.Release(&settings, ReleaseCall{Owner: "me", Ticket: "ticket"})},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}

func TestCallsAboutPermits(t *testing.T) {
	k, key := NewSemaphoreKeys("p:", "x", 3, 2)
	const ttl, queue, base = int64(10_000), "redlock::slots:p:x", "p:x#"
	require.Equal(t, queue, key)
	require.Equal(t, []int{0, 2}, k.Choose("0,2"))
	first, stripes := StripeOf("p:x#0"), StripeOf("p:x#0")+","+StripeOf("p:x#2")
	waits, comes := ofWaiter, AttemptCall{Owner: "me", Ticket: "", Seed: 9, Asks: true}
	waits.Seed = 9
	for name, c := range map[string]struct{ want, got []any }{
		"acquire":    {[]any{Permit.SHA(), "2", queue, "record", "me", ttl, first, "1", "ticket", "label", base, 3, 2, int64(9)}, k.Acquire(&settings, &waits, "record", "150")},
		"asks again": {[]any{Permit.SHA(), "2", queue, "record", "me", ttl, first, "1", "", "label", base, 3, 2, int64(9), "1"}, k.Acquire(&settings, &comes, "record", "150")},
		"raise":      {[]any{Raise.SHA(), "3", base + "0", base + "2", "record", "me", stripes, "7", "1"}, k.Raise(&settings, RaiseCall{"me", 7}, "record")},
		"renew":      {[]any{RenewAll.SHA(), "4", base + "0", base + "2", "record", MembersKey, "me", int64(5000), "list"}, k.Renew(&settings, renewal, "record")},
		"give back":  {[]any{GiveBack.SHA(), "1", queue, "me", base, 3, "0,2"}, k.Release(&settings, ReleaseCall{Owner: "me"})},
		"undo":       {[]any{GiveBack.SHA(), "1", queue, "me", base, 3, "", "ticket"}, k.Release(&settings, ReleaseCall{Owner: "me", Ticket: "ticket", Undo: true})},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}

// sent is a list as a server sends it: its texts are bulk strings.
func sent(values ...any) (reply []any) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			reply = append(reply, []byte(v))
		case []any:
			reply = append(reply, sent(v...))
		default:
			reply = append(reply, v)
		}
	}
	return reply
}

func TestCallsOfOperatorsNameKeysAndArguments(t *testing.T) {
	require.Equal(t, []any{Inspect.Text(), 4, "p:x", "record", "redlock::queue:p:x", "redlock::readers:p:x", StripeArg("p:x")},
		InspectCall("p:", "x", "record").Eval())
	require.Equal(t, Inspect.SHA(), InspectCall("", "x", nil).EvalSHA()[0])
	require.Equal(t, []any{InspectSlots.Text(), 2, "redlock::slots:p:x", "record", "p:x#", MaxPermits, StripeArg("p:x#0")},
		SlotsCall("p:", "x", "record").Eval())
	require.Equal(t, InspectSlots.SHA(), SlotsCall("", "x", nil).EvalSHA()[0])
	require.Equal(t, []any{Ask.Text(), 2, "p:x", "redlock::asked:p:x"}, AskCall{Key: "p:x"}.Eval())
	require.Equal(t, []any{Wake.Text(), 1, "redlock::slots:p:x", "p:x#", MaxPermits}, WakeCall{Semaphore: "p:x"}.Eval())
	k, _ := NewKeys("p:", "x", false)
	require.Equal(t, []any{Seize.Text(), 3, "p:x", "record", "redlock::queue:p:x", "me", int64(10_000), StripeArg("p:x"), "1", int64(5000), "them", "others"},
		SeizeCall{Keys: &k, Record: "record", Owner: "me", Values: []any{"them", "others"}, ReadersUntil: 5 * time.Second}.Eval(&settings))
}

func TestInspectionOfALock(t *testing.T) {
	got, err := ReadInspection(sent("them", int64(1500), "7", []any{"ticket", "label", "another", "its label"}, []any{"reader", "70"}, "1800000000000"), nil)
	require.NoError(t, err)
	require.Equal(t, Inspection{Holder: "them", Remaining: 1500 * time.Millisecond, Count: 7, Queue: []Ticket{{"ticket", "label"}, {"another", "its label"}},
		Readers: []Share{{"reader", 70 * time.Millisecond}}, Time: 1_800_000_000 * time.Second}, got)
	for value, pttl := range map[string]int64{"": -2, EmptyHolder: -1} {
		got, err := ReadInspection(sent("", pttl, "", []any{}, []any{}, "0"), nil)
		require.NoError(t, err)
		require.Equal(t, value, got.Holder, "PTTL %d", pttl)
	}
	refused := redis.Error("NOPERM no")
	_, err = ReadInspection(nil, refused)
	require.ErrorIs(t, err, refused)
	_, err = ReadInspection(sent("them"), nil)
	require.ErrorContains(t, err, "unexpected reply to inspect")
}

func TestInspectionOfSlots(t *testing.T) {
	var got Inspection
	require.NoError(t, got.AddSlots(sent([]any{"ticket", "label"}, []any{"0", "them", "70", "7", "255", "", "-1", ""}), nil))
	require.Equal(t, []Ticket{{"ticket", "label"}}, got.Queue)
	require.Equal(t, []Slot{{0, "them", 70 * time.Millisecond, 7}, {255, EmptyHolder, Endless, 0}}, got.Slots)
	for _, slots := range [][]any{{"256", "them", "70", "7"}, {"-1", "them", "70", "7"}, {"x", "them", "70", "7"}, {"0", "them", "x", "7"}} {
		require.ErrorContains(t, new(Inspection).AddSlots(sent([]any{}, slots), nil), "unexpected reply to inspectslots")
	}
}

func TestValuesOfKeys(t *testing.T) {
	holder, resting := HolderOf([]byte(Resting + "them"))
	require.Equal(t, "them", holder)
	require.True(t, resting)
	holder, resting = HolderOf(nil)
	require.Equal(t, EmptyHolder, holder)
	require.False(t, resting)
	holder, _ = HolderOf(make([]byte, 10_000))
	require.Len(t, holder, 512)
	for pttl, want := range map[int64]time.Duration{-2: 0, -1: Endless, 0: 0, 7: 7 * time.Millisecond, math.MaxInt64: math.MaxInt64 / time.Millisecond * time.Millisecond} {
		require.Equal(t, want, Remaining(pttl), "PTTL %d", pttl)
	}
}

var transferText = &TransferText{Prefix: "redlock:", Name: "x\xfe\x00", Label: "label\xff", Secret: "SECRET", Token: 7, Size: 3, Left: 9_000_000,
	Records: []string{"redlock::record:run-0", "redlock::record:run-1\xff"}}

func TestTextIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{transferText.String(), "\n" + transferText.String() + " \n"} {
		read, err := ParseTransferText(text)
		require.NoError(t, err)
		require.Equal(t, transferText, read)
	}
	require.NotContains(t, transferText.String(), "SECRET")
}

func TestDamagedTextIsRefused(t *testing.T) {
	text := transferText.String()
	for i := range text {
		_, err := ParseTransferText(text[:i])
		require.Error(t, err, "cut off after %d", i)
		other := "A"
		if text[i] == 'A' {
			other = "B"
		}
		_, err = ParseTransferText(text[:i] + other + text[i+1:])
		require.Error(t, err, "letter %d", i)
	}
}

func TestTextWithoutWhatItNeedsIsRefused(t *testing.T) {
	for name, change := range map[string]func(l *TransferText){
		"no name":       func(l *TransferText) { l.Name = "" },
		"no secret":     func(l *TransferText) { l.Secret = "" },
		"no nodes":      func(l *TransferText) { l.Records = nil },
		"no size":       func(l *TransferText) { l.Size = 0 },
		"negative time": func(l *TransferText) { l.Left = -1 },
		"endless time":  func(l *TransferText) { l.Left = 1 << 62 },
		"too long":      func(l *TransferText) { l.Name = strings.Repeat("x", 1<<16) },
	} {
		bad := *transferText
		change(&bad)
		_, err := ParseTransferText(bad.String())
		require.Error(t, err, name)
	}
}

func FuzzText(f *testing.F) {
	f.Add(transferText.String())
	f.Add("redlock-lease-3.00000000.")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseTransferText(text)
		if err != nil {
			return
		}
		again, err := ParseTransferText(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func TestHashIsThatOfRedis(t *testing.T) {
	require.Equal(t, "a9993e364706816aba3e25717850c26c9cd0d89d", HashOf("abc"), "RFC 3174")
	require.Equal(t, "84983e441c3bd26ebaae4aa1f95129e5e54670f1", HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "RFC 3174")
	if fips140.Enabled() {
		t.Skip("FIPS 140-3 may forbid crypto/sha1")
	}
	texts := []any{}
	for length := range 200 {
		texts = append(texts, strings.Repeat("é", length/2)+strings.Repeat("x", length%2))
	}
	for _, s := range All {
		texts = append(texts, s.Text())
		require.Equal(t, HashOf(s.Text().(string)), s.SHA())
	}
	for _, text := range texts {
		sum := sha1.Sum([]byte(text.(string))) //nolint:gosec
		require.Equal(t, hex.EncodeToString(sum[:]), HashOf(text.(string)), text)
	}
}

// replyReaders are what reads the answers to the scripts about one lock.
var replyReaders = map[string]func(reply any) (Reply, bool){
	"grant": ReadGrant, "permits": ReadPermits, "raise": ReadRaise, "renewal": ReadRenewal, "release": ReadRelease,
	"transfer": ReadTransfer, "resumption": ReadResumption, "seizure": ReadSeizure, "look": ReadLook,
}

// Each script has its own numbers, and a number of another one is no reply.
func TestNumbersThatScriptsReturn(t *testing.T) {
	for name, want := range map[string]map[int64]Reply{
		"grant":      {7: {Kind: Done, Token: 7}, 1: {Kind: Done, Token: 1}, -1: {Kind: Forgot}},
		"permits":    {-1: {Kind: Forgot}},
		"raise":      {1: {Kind: Done}, 0: {Kind: Gone}},
		"renewal":    {0: {Kind: Unproven}, 1: {Kind: Done}, 2: {Kind: Recreated}, 5: {Kind: Stranger}, 6: {Kind: Moved}, 11: {Kind: Done, Wanted: true}, 12: {Kind: Recreated, Wanted: true}},
		"release":    {0: {Kind: NotFound}, 1: {Kind: Done}, 2: {Kind: Kept}, 3: {Kind: HandedOff}, 4: {Kind: StillHeld}},
		"transfer":   {0: {Kind: KeyGone}, 1: {Kind: Done}, 6: {Kind: Moved}},
		"resumption": {7: {Kind: Done, Token: 7}, 1: {Kind: Done, Token: 1}, 0: {Kind: KeyGone}, -1: {Kind: Forgot}},
		"seizure":    {-1: {Kind: Forgot}},
		"look":       {},
	} {
		for n := int64(-3); n <= 13; n++ {
			w, has := want[n]
			if !has && n > 1 && (name == "grant" || name == "resumption") {
				w, has = Reply{Kind: Done, Token: n}, true
			}
			got, ok := replyReaders[name](n)
			require.Equal(t, has, ok, "%s: %d", name, n)
			if ok {
				require.Equal(t, w, got, "%s: %d", name, n)
			}
		}
	}
}

func TestListsThatScriptsReturn(t *testing.T) {
	held := sent("them", int64(1500))
	refused := Reply{Kind: Refused, Holder: "them", Remaining: 1500 * time.Millisecond}
	queued := sent("them", int64(1500), int64(7), "ncud1500")
	place := refused
	place.Place = Place{Position: 7, Joined: true, Watches: true, Unheard: true, LookIn: 1500}
	few := sent("redlock::permits", int64(1500), "AAAABBBB")
	for name, want := range map[string]map[string]Reply{
		"grant":      {"held": refused, "queued": place},
		"permits":    {"held": refused, "queued": place, "slots": {Kind: Done, Token: 7, Slots: "0,255"}, "few": {Kind: Refused, Holder: Permits, Remaining: 1500 * time.Millisecond, Slots: "AAAABBBB"}},
		"raise":      {},
		"renewal":    {"held": refused, "queued": place},
		"release":    {},
		"transfer":   {"held": refused, "queued": place},
		"resumption": {"held": refused, "queued": place},
		"seizure":    {"held": refused, "queued": place, "seized": {Kind: Done, Token: 7, Holder: "them", Remaining: 1500 * time.Millisecond}, "free": {Kind: Done, Token: 7}},
		"look":       {},
	} {
		for what, reply := range map[string][]any{
			"held": held, "queued": queued, "few": few, "slots": sent(int64(7), int64(0), int64(255)), "time": sent("1800000000", "5"),
			"seized": sent(int64(7), "them", int64(1500)), "free": sent(int64(7), "", int64(-2)),
			"nothing": {}, "a slot too far": sent(int64(7), int64(256)), "no slots": sent(int64(7)), "a text": sent("them"), "no count": sent("x", "them", int64(1500)),
		} {
			w, has := want[what]
			got, ok := replyReaders[name](reply)
			require.Equal(t, has, ok, "%s: %s", name, what)
			if ok {
				require.Equal(t, w, got, "%s: %s", name, what)
			}
		}
	}
}

// A reply is understood, or it is none. What is understood is what a script returns.
func FuzzReply(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		for name, read := range replyReaders {
			r, ok := read(replies[0])
			if !ok {
				continue
			}
			require.NotZero(t, r.Kind, name)
			require.True(t, r.Remaining >= 0 || r.Remaining == Endless, name)
			require.True(t, r.Kind == Done || r.Token == 0, name)
			require.True(t, r.Kind == Refused || r.Place == Place{}, name)
		}
	})
}

// A reply to an InspectCall is understood, or becomes an error. It does no harm.
func FuzzInspect(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		if found, err := ReadInspection(replies[0], nil); err != nil {
			require.Empty(t, found)
			require.NotContains(t, err.Error(), "%!")
		}
	})
}

// A reply that lists a semaphore's slots is understood, or becomes an error.
func FuzzInspectSlots(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		var found Inspection
		err := found.AddSlots(replies[0], nil)
		if err != nil {
			require.NotContains(t, err.Error(), "%!")
		}
		for _, s := range found.Slots {
			require.Less(t, s.Number, MaxPermits)
			require.GreaterOrEqual(t, s.Number, 0)
		}
	})
}
