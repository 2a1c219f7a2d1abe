// Package quorum asks the nodes of a cluster a question and counts their votes.
//
// A Ballot is one question to all nodes, a script or a few commands. Its maker begins it
// with Cluster.Begin, fills in each Vote (what to send, and by which right the node
// votes), queues and flushes it, and awaits the verdict. Votes are counted as answers
// come, by the connection's reader or by the goroutine that broke the connection: Receive,
// then Reader.Read, then Watcher.Answered, then the Tally, then the Rule. The verdict
// is final as soon as no vote that is still out can change it, or when its maker or a
// timer closes the ballot.
//
// A later answer does not change the verdict. It is still acted on: an unconfirmed release
// becomes an undo, a forgotten record ends the node's right to vote, and the Watcher sees
// the answer. A renewal's verdict alone may change: a late answer before
// Question.LateUntil can make it Revoked.
//
// Rules are pure functions of the Tally. Package quorum does not build commands or parse
// replies: what to ask, how to read a reply and whom to inform comes with the Question. It
// knows one format: how a refusal of a semaphore names the owners of slots (slots.go).
//
// # Locks and goroutines
//
// The locks of leases and waiters come before Ballot.mu; nodes' and pipes' locks come
// after it. Recorders run under Ballot.mu and must not call the ballot's
// methods. Watchers run without it, and may. An Undoer runs with or without it, and must
// not call them. A ballot has no goroutine; the timer that closes it ends with Await.
package quorum
