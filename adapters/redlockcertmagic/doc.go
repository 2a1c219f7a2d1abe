// Package redlockcertmagic lets the instances of a program that get certificates with CertMagic
// lock with redlock, whatever storage they share:
//
//	storage, err := redlockcertmagic.Wrap(&certmagic.FileStorage{Path: "/mnt/certs"}, client)
//	...
//	config := certmagic.New(cache, certmagic.Config{Storage: storage})
//
// The wrapped storage goes on keeping certificates, keys and accounts. Its own locks are not
// used any more: all instances must use the wrapper, with the masters of one list.
//
// One caller of a process at a time has a name, from its Lock to its Unlock, also if its lease is
// lost meanwhile: certmagic names a lock only by a text, so an Unlock could not say otherwise
// which of two callers makes it. The other callers of the process wait in front of the lock's
// queue at the nodes.
//
// The package starts no goroutines: the Client renews the leases.
package redlockcertmagic
