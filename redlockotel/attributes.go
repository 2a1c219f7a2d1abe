package redlockotel

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/redlock-go/redlock"
)

// The attributes that OpenTelemetry's conventions have no names for.
const (
	operationKey = attribute.Key("redlock.operation.name") // lock, trylock, rlock, tryrlock, acquire, tryacquire, extend, downgrade, unlock, ask, transfer, resume
	ballotKey    = attribute.Key("redlock.ballot.name")    // lock, raise, extend, unlock, rollback, force unlock, transfer, resume, ping
	outcomeKey   = attribute.Key("redlock.outcome")
	reasonKey    = attribute.Key("redlock.lease.lost.reason") // expired, max_hold, revoked, no_quorum
	nodeKey      = attribute.Key("redlock.node.index")
	stateKey     = attribute.Key("redlock.node.state")
	nameKey      = attribute.Key("redlock.lock.name")
	ownerKey     = attribute.Key("redlock.lease.owner")
	tokenKey     = attribute.Key("redlock.lease.token")
	sharedKey    = attribute.Key("redlock.lease.shared") // a reader's, or a writer's after Downgrade
	slotsKey     = attribute.Key("redlock.lease.slots")  // of the permits, where the lease has some
	positionKey  = attribute.Key("redlock.wait.position")
	grantedKey   = attribute.Key("redlock.ballot.granted")
	refusedKey   = attribute.Key("redlock.ballot.refused")
	silentKey    = attribute.Key("redlock.ballot.silent")
	latencyKey   = attribute.Key("redlock.vote.latency") // in seconds
)

// nodeOf returns a node's attributes: its index and, if its name has one, its address.
func nodeOf(index int, name string) []attribute.KeyValue {
	all := []attribute.KeyValue{nodeKey.Int(index)}
	_, address, _ := strings.Cut(name, " (")
	address = strings.TrimSuffix(address, ")")
	if address == "" {
		return all
	}
	host, port, err := net.SplitHostPort(address)
	number, bad := strconv.Atoi(port)
	if err != nil || bad != nil {
		return append(all, semconv.ServerAddress(address)) // a socket's path, or a name
	}
	return append(all, semconv.ServerAddress(host), semconv.ServerPort(number))
}

// errorType returns one word for an error of redlock's.
func errorType(err error) attribute.KeyValue {
	word := "other"
	for _, kind := range []struct {
		err  error
		word string
	}{
		{redlock.ErrLost, "lost"},
		{context.DeadlineExceeded, "deadline_exceeded"},
		{context.Canceled, "canceled"},
		{redlock.ErrClosed, "closed"},
		{redlock.ErrConfig, "config"},
		{redlock.ErrHeld, "held"},
		{redlock.ErrNoQuorum, "no_quorum"},
		{redlock.ErrReleased, "released"},
	} {
		if errors.Is(err, kind.err) {
			word = kind.word
			break
		}
	}
	return semconv.ErrorTypeKey.String(word)
}

// word returns an outcome or a reason in the form of attributes.
func word(s string) string { return strings.ReplaceAll(s, " ", "_") }
