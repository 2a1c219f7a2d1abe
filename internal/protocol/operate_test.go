package protocol

import (
	"math"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

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
		SeizeCall{Keys: &k, Record: "record", Owner: "me", Values: []any{"them", "others"}, ReadersUntil: 5 * time.Second}.Eval(&fencing))
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
