package protocol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
)

// replyReaders are what reads the answers to the scripts about one lock.
var replyReaders = map[string]func(reply any) (Reply, bool){
	"grant": ReadGrant, "claim": ReadClaim, "permits": ReadPermits, "raise": ReadRaise, "renewal": ReadRenewal, "release": ReadRelease,
	"transfer": ReadTransfer, "resumption": ReadResumption, "seizure": ReadSeizure, "look": ReadLook,
}

// Each script has its own numbers, and a number of another one is no reply.
func TestNumbersThatScriptsReturn(t *testing.T) {
	for name, want := range map[string]map[int64]Reply{
		"grant":      {7: {Kind: Done, Token: 7}, 1: {Kind: Done, Token: 1}, -1: {Kind: Forgot}},
		"claim":      {1: {Kind: Done}},
		"permits":    {-1: {Kind: Forgot}},
		"raise":      {1: {Kind: Done}, 0: {Kind: Gone}},
		"renewal":    {0: {Kind: Unproven}, 1: {Kind: Done}, 2: {Kind: Recreated}, 11: {Kind: Done, Wanted: true}, 12: {Kind: Recreated, Wanted: true}},
		"release":    {0: {Kind: NotFound}, 1: {Kind: Done}, 2: {Kind: Kept}, 3: {Kind: HandedOff}, 4: {Kind: StillHeld}},
		"transfer":   {0: {Kind: KeyGone}, 1: {Kind: Done}},
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
		"claim":      {"held": refused, "queued": place},
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
