package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	fencing  = NewSettings(10*time.Second, 1, "label", true)
	noTokens = NewSettings(10*time.Second, 1, "label", false)

	ofWaiter = AttemptCall{Owner: "me", Ticket: "ticket", Before: "I before"}
	renewal  = RenewalCall{Owner: "me", Ticket: "ticket", TTL: int64(5000)}
)

// A name has no tokens, or its holder wants to be told that others want it: then other keys and arguments go to the scripts.
func TestCallsAboutALock(t *testing.T) {
	const ttl, queue, readers, asked = int64(10_000), "redlock::queue:p:x", "redlock::readers:p:x", "redlock::asked:p:x"
	stripe := StripeArg("p:x")
	k, key := NewKeys("p:", "x", false)
	require.Equal(t, "p:x", key)
	told, _ := NewShareKeys("p:", "x", true)
	share, _ := NewShareKeys("p:", "x", false)
	for name, c := range map[string]struct{ want, got []any }{
		"acquire":          {[]any{Acquire.SHA(), "2", key, "record", "me", ttl, stripe, "1", "ticket", "label", "I before", "150"}, k.Acquire(&fencing, &ofWaiter, "record", "150")},
		"without tokens":   {[]any{Acquire.SHA(), "1", key, "me", ttl, "", "1", "ticket", "label", "I before", "150"}, k.Acquire(&noTokens, &ofWaiter, "record", "150")},
		"raise":            {[]any{Raise.SHA(), "2", key, "record", "me", stripe, "7", "1"}, k.Raise(&fencing, RaiseCall{"me", 7}, "record")},
		"renew":            {[]any{Renew.SHA(), "2", key, "record", "me", int64(5000), "1"}, k.Renew(&fencing, renewal, "record")},
		"renew, told":      {[]any{Renew.SHA(), "4", key, "record", queue, asked, "me", int64(5000), "1", "ticket"}, told.Keys.Renew(&fencing, renewal, "record")},
		"release":          {[]any{Release.SHA(), "3", key, queue, readers, "me"}, k.Release(&fencing, ReleaseCall{Owner: "me"})},
		"leave":            {[]any{Release.SHA(), "3", key, queue, readers, "me", "ticket"}, k.Release(&fencing, ReleaseCall{Owner: "me", Ticket: "ticket"})},
		"stay":             {[]any{Release.SHA(), "3", key, queue, readers, "me", "ticket", "label"}, k.Release(&fencing, ReleaseCall{Owner: "me", Ticket: "ticket", Stay: true})},
		"passed the queue": {[]any{Release.SHA(), "3", key, queue, readers, "me", ""}, k.Release(&fencing, ReleaseCall{Owner: "me", PassedQueue: true})},
		"rest":             {[]any{Rest.SHA(), "3", key, queue, readers, int64(2), "me", "ticket"}, RestAfter(k.Release(&fencing, ReleaseCall{Owner: "me", Ticket: "ticket"}), 1001*time.Microsecond)},
		"rested":           {[]any{Rest.SHA(), "3", key, queue, readers, int64(0), "me"}, RestAfter(k.Release(&fencing, ReleaseCall{Owner: "me"}), -time.Second)},
		"read": {[]any{Read.SHA(), "4", key, "record", queue, readers, "me", ttl, stripe, "1", "ticket", "label", "I before", "150"},
			share.Acquire(&fencing, &ofWaiter, "record", "150")},
		"read without tokens": {[]any{Read.SHA(), "4", key, "record", queue, readers, "me", ttl, "", "1", "ticket", "label", "I before", "150"},
			share.Acquire(&noTokens, &ofWaiter, "record", "150")},
		"raise, of a share": {[]any{Raise.SHA(), "3", key, "record", readers, "me", stripe, "7", "1", "1"}, share.Raise(&fencing, RaiseCall{"me", 7}, "record")},
		"keep":              {[]any{Keep.SHA(), "4", key, "record", queue, readers, "me", int64(5000), "1", "ticket"}, share.Renew(&fencing, renewal, "record")},
		"keep, told":        {[]any{Keep.SHA(), "5", key, "record", queue, readers, asked, "me", int64(5000), "1", "ticket", "1"}, told.Renew(&fencing, renewal, "record")},
		"transfer":          {[]any{Transfer.Text(), "1", key, "me", "secret", int64(2)}, TransferCall{Key: key, Owner: "me", Value: "secret", TTL: 1001 * time.Microsecond}.Eval()},
		"take back":         {[]any{"1", key, "secret", "me"}, TakeBackCall{Key: key, Value: "secret", Owner: "me"}.Args()},
		"resume":            {[]any{Resume.Text(), "2", key, "record", "secret", "me", ttl, stripe, "1"}, ResumeCall{Keys: &k, Record: "record", Value: "secret", Owner: "me"}.Eval(&fencing)},
		"resume without tokens": {[]any{Resume.Text(), "2", key, "record", "secret", "me", ttl, "", "1"},
			ResumeCall{Keys: &k, Record: "record", Value: "secret", Owner: "me"}.Eval(&noTokens)},
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
		"acquire":        {[]any{AcquireAll.SHA(), 5, "p:a", "p:b", a, b, "record", "me", ttl, stripes, "1", "ticket", "label", "I before", "150"}, k.Acquire(&fencing, &ofWaiter, "record", "150")},
		"without tokens": {[]any{AcquireAll.SHA(), 4, "p:a", "p:b", a, b, "me", ttl, "", "1", "ticket", "label", "I before", "150"}, k.Acquire(&noTokens, &ofWaiter, "record", "150")},
		"raise":          {[]any{Raise.SHA(), "3", "p:a", "p:b", "record", "me", stripes, "7", "1"}, k.Raise(&fencing, RaiseCall{"me", 7}, "record")},
		"renew":          {[]any{RenewAll.SHA(), "3", "p:a", "p:b", "record", "me", int64(5000), "1"}, k.Renew(&fencing, renewal, "record")},
		"renew, told": {[]any{RenewAll.SHA(), 7, "p:a", "p:b", "record", a, b, "redlock::asked:p:a", "redlock::asked:p:b", "me", int64(5000), "1", "ticket"},
			told.Renew(&fencing, renewal, "record")},
		"release": {[]any{ReleaseAll.SHA(), "6", "p:a", "p:b", a, b, "redlock::readers:p:a", "redlock::readers:p:b", "me", "ticket"},
			k.Release(&fencing, ReleaseCall{Owner: "me", Ticket: "ticket"})},
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
		"acquire":        {[]any{Permit.SHA(), "2", queue, "record", "me", ttl, first, "1", "ticket", "label", base, 3, 2, int64(9)}, k.Acquire(&fencing, &waits, "record", "150")},
		"without tokens": {[]any{Permit.SHA(), "1", queue, "me", ttl, "", "1", "", "label", base, 3, 2, int64(9), "1"}, k.Acquire(&noTokens, &comes, "record", "150")},
		"raise":          {[]any{Raise.SHA(), "3", base + "0", base + "2", "record", "me", stripes, "7", "1"}, k.Raise(&fencing, RaiseCall{"me", 7}, "record")},
		"renew":          {[]any{RenewAll.SHA(), "3", base + "0", base + "2", "record", "me", int64(5000), "1"}, k.Renew(&fencing, renewal, "record")},
		"give back":      {[]any{GiveBack.SHA(), "1", queue, "me", base, 3, "0,2"}, k.Release(&fencing, ReleaseCall{Owner: "me"})},
		"undo":           {[]any{GiveBack.SHA(), "1", queue, "me", base, 3, "", "ticket"}, k.Release(&fencing, ReleaseCall{Owner: "me", Ticket: "ticket", Undo: true})},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}
