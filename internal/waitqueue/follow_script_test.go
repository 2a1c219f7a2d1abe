package waitqueue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The first waiter looks at its own pace. One that becomes the first since others have left is told to look, unless
// these are its own client's, which sees to it.
func TestWaiterThatBecomesTheFirstAsOthersLeaveIsToldToLook(t *testing.T) {
	const permit, base = "/1*1", "redlock:x#"
	semaphore := protocol.Key("slots", "redlock:x")
	for name, c := range map[string]struct {
		named      []string // in the messages
		suffix     string   // of the tickets
		ask, leave func(n *setNode, ticket string)
	}{
		"a mutex": {[]string{"a"}, "", func(n *setNode, ticket string) {
			n.askOne("a", ticket)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.Release, testnet.Keys("a", "of "+ticket, ticket)...)
		}},
		"a set": {[]string{"a", "b"}, "+", func(n *setNode, ticket string) {
			n.ask(ticket, 0)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.ReleaseAll, testnet.AllKeys([]string{"a", "b"}, "of "+ticket, ticket)...)
		}},
		"permits": {[]string{semaphore}, permit, func(n *setNode, ticket string) {
			n.eval(protocol.Permit, 1, semaphore, "of "+ticket, 10_000, "", 1, ticket, "label", base, 1, 1, 5)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.GiveBack, 1, semaphore, "of "+ticket, base, 1, "", ticket)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n := newSetNode(t, net, "a", "b", base+"0")
				first, another := testnet.FirstTicket+c.suffix, anotherOfFirst+c.suffix
				second, third := testnet.SecondTicket+c.suffix, testnet.ThirdTicket+c.suffix
				for _, ticket := range []string{first, another, second, third} {
					c.ask(n, ticket)
				}
				for _, ticket := range []string{second, first} {
					n.sent = nil
					c.leave(n, ticket)
					require.Empty(t, n.sent, ticket)
				}
				var want []string
				for _, named := range c.named {
					want = append(want, "look "+third+" "+named)
				}
				c.leave(n, another)
				require.Equal(t, want, n.sent)
			})
		})
	}
}
