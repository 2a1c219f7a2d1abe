// Package redlockrueidis makes pools for redlock of the options of rueidis clients.
//
// A rueidis client does not show how it connects, so the pool is made of the rueidis.ClientOption that the client was made of. It uses
// the dialer, TLS, credentials, database and client name in it, and connections of its own: one to each server, and a
// second one when a lock has to wait. The package starts no goroutines.
package redlockrueidis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/redis/rueidis"

	"github.com/redlock-go/redlock"
)

// Pools returns a pool for each option, for redlock.New. It returns redlock.ErrConfig if Pool does for one of them, and
// says for which.
func Pools(options ...rueidis.ClientOption) ([]redlock.Pool, error) {
	pools := make([]redlock.Pool, len(options))
	for i, o := range options {
		p, err := Pool(o)
		if err != nil {
			return nil, fmt.Errorf("%w (option %d of %d)", err, i+1, len(options))
		}
		pools[i] = p
	}
	return pools, nil
}

// Pool returns a pool of the server that an option leads to. It returns redlock.ErrConfig for an option that does not lead to one
// independent master: one with no address, with several, with a Sentinel's master set, with replicas, or with ReplicaOnly.
//
// DialFn and AuthCredentialsFn get no context. While one of them hangs, the node is down; the client's Close does not wait for it.
func Pool(option rueidis.ClientOption) (redlock.Pool, error) {
	if err := check(&option); err != nil {
		return nil, err
	}
	addr := option.InitAddress[0]
	dial := func(ctx context.Context) (net.Conn, error) { return dial(ctx, addr, &option) }
	return redlock.DialPool(dial, redlock.DialConfig{Addr: addr, Database: option.SelectDB, ClientName: option.ClientName,
		Credentials: func(context.Context) (user, password string, err error) { return credentials(addr, &option) }}), nil
}

func check(o *rueidis.ClientOption) error {
	switch {
	case len(o.InitAddress) == 0:
		return refuse("the option has no InitAddress")
	case len(o.InitAddress) > 1:
		return refuse("the option has %d addresses, which are those of a cluster or of Sentinels: give redlock independent masters, an option for each", len(o.InitAddress))
	case o.Sentinel.MasterSet != "":
		return refuse("Sentinel may change the master of %q, and the new one forgets locks: give redlock independent masters", o.Sentinel.MasterSet)
	case o.ReplicaOnly, len(o.Standalone.ReplicaAddress) > 0, o.SendToReplicas != nil:
		return refuse("the option of %s uses replicas: give redlock independent masters", o.InitAddress[0])
	}
	return nil
}

// dial connects as a rueidis client with the option does.
func dial(ctx context.Context, addr string, o *rueidis.ClientOption) (net.Conn, error) {
	dialer := o.Dialer
	if dialer.Timeout == 0 {
		dialer.Timeout = rueidis.DefaultDialTimeout
	}
	if dialer.KeepAlive == 0 {
		dialer.KeepAlive = rueidis.DefaultTCPKeepAlive
	}
	switch {
	case o.DialCtxFn != nil:
		return o.DialCtxFn(ctx, addr, &dialer, o.TLSConfig)
	case o.DialFn != nil: // of programs that were written before there was DialCtxFn
		return o.DialFn(addr, &dialer, o.TLSConfig)
	case o.TLSConfig != nil:
		return (&tls.Dialer{NetDialer: &dialer, Config: o.TLSConfig}).DialContext(ctx, "tcp", addr)
	}
	return dialer.DialContext(ctx, "tcp", addr)
}

// address is the server's, for AuthCredentialsFn.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// credentials returns who logs in at a new connection.
func credentials(addr string, o *rueidis.ClientOption) (user, password string, err error) {
	if o.AuthCredentialsFn == nil {
		return o.Username, o.Password, nil
	}
	c, err := o.AuthCredentialsFn(rueidis.AuthCredentialsContext{Address: address(addr)})
	return c.Username, c.Password, err
}

// refuse returns an error about an option.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: redlockrueidis: %s", redlock.ErrConfig, fmt.Sprintf(format, args...))
}
