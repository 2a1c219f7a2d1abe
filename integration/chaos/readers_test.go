package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shares makes operations of a share out of a client's operations.
func shares(owner string, ops ...Op) []Op {
	for i := range ops {
		ops[i].Owner, ops[i].Shared = owner, true
	}
	return ops
}

func TestHistoriesOfReadersAndWritersAreAccepted(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"two readers with one token, after a writer with it": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 8, Release, 1, 0)},
			shares("a", at(10, 12, Acquire, 1, 0), at(14, 15, Read, 1, 1), at(30, 31, Read, 1, 1), at(32, 33, Release, 1, 0)),
			shares("b", at(13, 14, Acquire, 1, 0), at(16, 17, Read, 1, 1), at(20, 21, Held, 1, 0), at(40, 41, Release, 1, 0)),
			{at(42, 43, Acquire, 2, 0), at(44, 45, Release, 2, 0)},
		},
		"a reader with a lesser token than a reader beside it": {
			shares("a", at(0, 2, Acquire, 4, 0), at(20, 21, Release, 4, 0)),
			shares("b", at(5, 6, Acquire, 3, 0), at(20, 21, Release, 3, 0)),
			{at(22, 23, Acquire, 5, 0)},
		},
		"readers beside a writer that downgraded": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 7, Downgrade, 1, 0), at(20, 21, Held, 1, 0), at(22, 23, Read, 1, 1), at(30, 31, Release, 1, 0)},
			shares("a", at(6, 12, Acquire, 1, 0), at(14, 15, Read, 1, 1), at(40, 41, Release, 1, 0)),
			{at(42, 43, Acquire, 2, 0)},
		},
		"a writer whose lease ends by itself before its downgrade": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(150, 150, Downgrade, 1, 0), until(at(160, 161, Lost, 1, 0), 100)},
			{at(110, 112, Acquire, 2, 0), at(200, 201, Release, 2, 0)},
		},
		"a writer that was killed after its downgrade": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(5, 5, Downgrade, 1, 0)},
			shares("a", at(6, 12, Acquire, 1, 0), at(105, 106, Release, 1, 0)),
			{at(107, 108, Acquire, 2, 0)},
		},
		"a reader that was killed beside one that stays": {
			shares("a", until(at(0, 2, Acquire, 1, 0), 100)),
			shares("b", at(5, 6, Acquire, 1, 0), at(300, 301, Release, 1, 0)),
			shares("c", at(280, 281, Acquire, 1, 0), at(290, 291, Release, 1, 0)),
			{at(302, 303, Acquire, 2, 0), at(304, 305, Release, 2, 0)},
		},
		"a late write that the fence refuses, since a reader with the same token has read": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, StaleWrite, 1, 1), until(at(302, 303, Lost, 1, 0), 100)},
			shares("a", at(110, 112, Acquire, 1, 0), at(120, 121, FencedRead, 1, 0), at(310, 311, FencedRead, 1, 0), at(312, 313, Release, 1, 0)),
		},
		"a reader that is late, and the fence refuses": {
			shares("a", until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, StaleRead, 1, 0), until(at(302, 303, Lost, 1, 0), 100)),
			{at(110, 112, Acquire, 2, 0), at(120, 121, FencedRead, 2, 0), at(130, 131, FencedWrite, 2, 1), at(140, 141, Release, 2, 0)},
		},
		"a writer that reads as a reader once it is one": {
			append([]Op{at(0, 2, Acquire, 1, 0), at(3, 4, FencedRead, 1, 0), at(5, 6, FencedWrite, 1, 1), at(7, 7, Downgrade, 1, 0)},
				shares("1", at(8, 9, FencedRead, 1, 1), at(10, 11, Release, 1, 0))...),
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, verdict(logs...)) })
	}
}

func TestOtherHistoriesOfReadersAndWritersAreRefused(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"a reader beside a writer": {
			{at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)},
			shares("a", at(5, 6, Acquire, 1, 0), at(30, 31, Release, 1, 0)),
		},
		"a writer beside a reader": {
			shares("a", at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			{at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)},
		},
		"a writer beside the second of two readers": {
			shares("a", at(0, 2, Acquire, 1, 0), at(5, 6, Release, 1, 0)),
			shares("b", at(3, 4, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			{at(7, 8, Acquire, 2, 0), at(30, 31, Release, 2, 0)},
		},
		"a writer beside a reader that was killed, by the validity that it reported": {
			shares("a", until(at(0, 2, Acquire, 1, 0), 100)),
			{at(90, 95, Acquire, 2, 0), at(96, 97, Release, 2, 0)},
		},
		"a writer beside a lease that was downgraded": {
			{at(0, 2, Acquire, 1, 0), at(5, 5, Downgrade, 1, 0), at(20, 21, Release, 1, 0)},
			{at(10, 11, Acquire, 2, 0), at(30, 31, Release, 2, 0)},
		},
		"a writer beside a lease that was downgraded and prolonged, whose holder was killed": {
			{until(at(0, 2, Acquire, 1, 0), 50), at(5, 5, Downgrade, 1, 0), until(at(6, 7, Held, 1, 0), 100)},
			{at(60, 61, Acquire, 2, 0), at(70, 71, Release, 2, 0)},
		},
		"a reader before the downgrade of the lease beside it": {
			{at(0, 2, Acquire, 1, 0), at(15, 15, Downgrade, 1, 0), at(20, 21, Release, 1, 0)},
			shares("a", at(5, 6, Acquire, 1, 0), at(30, 31, Release, 1, 0)),
		},
		"a share that is held beside the next writer": {
			shares("a", at(0, 2, Acquire, 1, 0), at(12, 13, Held, 1, 0), at(20, 21, Release, 1, 0)),
			{at(10, 11, Acquire, 2, 0), at(14, 15, Release, 2, 0)},
		},
		"a writer with the token of a reader before it": {
			shares("a", at(0, 2, Acquire, 3, 0), at(4, 5, Release, 3, 0)),
			{at(6, 7, Acquire, 3, 0), at(8, 9, Release, 3, 0)},
		},
		"a writer with a lesser token than one of two readers before it": {
			shares("a", at(0, 2, Acquire, 4, 0), at(5, 6, Release, 4, 0)),
			shares("b", at(3, 4, Acquire, 2, 0), at(5, 6, Release, 2, 0)),
			{at(7, 8, Acquire, 3, 0), at(9, 10, Release, 3, 0)},
		},
		"a writer beside an earlier reader, with its token": {
			shares("a", at(0, 2, Acquire, 3, 0), at(20, 21, Release, 3, 0)),
			{at(6, 7, Acquire, 3, 0), at(30, 31, Release, 3, 0)},
		},
		"a reader with a lesser token than a writer before it": {
			{at(0, 2, Acquire, 2, 0), at(4, 5, Release, 2, 0)},
			shares("a", at(6, 7, Acquire, 1, 0), at(8, 9, Release, 1, 0)),
		},
		"a reader beside which the number changes": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 8, Downgrade, 1, 0), at(40, 41, Release, 1, 0)},
			shares("a", at(9, 10, Acquire, 1, 0), at(11, 12, Read, 1, 1), at(15, 16, Read, 1, 2), at(20, 21, Release, 1, 0)),
		},
		"a reader that reads when it has released its share": {
			shares("a", at(0, 2, Acquire, 1, 0), at(3, 4, Release, 1, 0), at(5, 6, Read, 1, 0)),
		},
		"a share that reports to be valid when it was released": {
			shares("a", at(0, 2, Acquire, 1, 0), at(3, 4, Release, 1, 0), at(5, 6, Held, 1, 0)),
		},
		"a share that writes": {
			shares("a", at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 8, Release, 1, 0)),
		},
		"a write after the downgrade": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 5, Downgrade, 1, 0), at(6, 7, Write, 1, 1), at(8, 9, Release, 1, 0)},
		},
		"a late write that is accepted though a reader with the same token has read": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, FencedWrite, 1, 1), until(at(302, 303, Lost, 1, 0), 100)},
			shares("a", at(110, 112, Acquire, 1, 0), at(120, 121, FencedRead, 1, 0), at(310, 311, Release, 1, 0)),
		},
		"a share that writes past the fence": {
			shares("a", at(0, 2, Acquire, 1, 0), at(3, 4, FencedRead, 1, 0), at(5, 6, FencedWrite, 1, 1), at(7, 8, Release, 1, 0)),
		},
		"a reader that is late, and passes the fence": {
			shares("a", until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, FencedRead, 1, 1), until(at(302, 303, Lost, 1, 0), 100)),
			{at(110, 112, Acquire, 2, 0), at(120, 121, FencedRead, 2, 0), at(130, 131, FencedWrite, 2, 1), at(140, 141, Release, 2, 0)},
		},
		"a reader that is refused since another reader has its token": {
			shares("a", at(0, 2, Acquire, 1, 0), at(3, 4, FencedRead, 1, 0), at(20, 21, Release, 1, 0)),
			shares("b", at(5, 6, Acquire, 1, 0), at(7, 8, StaleRead, 1, 0), at(20, 21, Release, 1, 0)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			violations := verdict(logs...)
			require.Len(t, violations, 1)
			assert.Contains(t, violations[0].String(), "\n  x ", "it shows the operation")
		})
	}
}

// A lease that a majority forgot may have ended at any time since it was known to be valid. Its
// end, which the next conflicting grant limits, is not limited by the readers beside it.
func TestShareThatAMajorityForgotLastsBesideReaders(t *testing.T) {
	meanwhile := Span{From: 40 * time.Millisecond, To: 45 * time.Millisecond}
	forgotten := map[int]Span{0: meanwhile, 1: meanwhile, 2: meanwhile}
	for name, begin := range map[string][]Op{
		"a reader's":             shares("1", until(at(0, 2, Acquire, 1, 0), 100)),
		"a writer's, downgraded": {until(at(0, 2, Acquire, 1, 0), 100), at(5, 5, Downgrade, 1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			lost := append(begin, shares("1", at(30, 31, Read, 1, 0), until(at(60, 61, Lost, 1, 0), 55))...)
			reader := shares("a", at(10, 12, Acquire, 1, 0), at(20, 21, Release, 1, 0))
			writer := []Op{at(45, 50, Acquire, 2, 0), at(70, 71, Release, 2, 0)}
			require.Empty(t, verdictAfter(forgotten, lost, reader, writer))
			require.Len(t, verdict(lost, reader, writer), 1)
		})
	}
}

// Among readers that die again and again, and writers between them, the next writer limits the
// end of each share: so the history can be checked in pieces.
func TestHistoryWithDeadReadersIsCheckedInPieces(t *testing.T) {
	const writers = 1000
	h := &History{Locks: map[string][]Op{}, Count: map[Kind]int{}}
	for i := int64(1); i <= writers; i++ {
		from := 100 * i
		h.add([]Op{at(from, from+2, Acquire, i, 0), at(from+3, from+4, Release, i, 0)})
		h.add(shares("dead", until(at(from+10, from+12, Acquire, i, 0), from+30)))
		h.add(shares("lives", at(from+11, from+12, Acquire, i, 0), at(from+50, from+51, Release, i, 0)))
	}
	ops := order(h.Locks["lock"])
	require.Len(t, pieces(ops, minPiece), len(ops)/minPiece)
	h.Locks["lock"] = ops
	require.Empty(t, (&Checker{Timeout: 10 * time.Second}).Check(h))
}

// After a violation the next round is judged on its own: its leases have greater tokens than
// those before.
func TestRoundAfterAViolationBeginsAnew(t *testing.T) {
	c := &Checker{Timeout: 10 * time.Second}
	round := func(logs ...[]Op) *History {
		h := &History{Locks: map[string][]Op{}}
		for _, ops := range logs {
			h.Locks["lock"] = append(h.Locks["lock"], ops...)
		}
		return h
	}
	require.Len(t, c.Check(round(
		[]Op{at(0, 2, Acquire, 5, 0), at(20, 21, Release, 5, 0)},
		shares("a", at(5, 6, Acquire, 7, 0), at(30, 31, Release, 7, 0)))), 1)
	require.Empty(t, c.Check(round(
		shares("b", at(40, 41, Acquire, 6, 0), at(42, 43, FencedRead, 6, 9), at(44, 45, Release, 6, 0)),
		[]Op{at(50, 51, Acquire, 8, 0), at(52, 53, FencedRead, 8, 9), at(54, 55, FencedWrite, 8, 10), at(56, 57, Release, 8, 0)})))
	require.Len(t, c.Check(round([]Op{at(60, 61, Acquire, 8, 0), at(62, 63, Release, 8, 0)})), 1)
}
