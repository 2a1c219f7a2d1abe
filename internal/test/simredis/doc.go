// Package simredis is Redis servers and the network to them, for simulations in the
// virtual time of a testing/synctest bubble, with the faults of both at the simulation's
// command. The scripts that it runs are the real ones, in a real Lua; the commands beneath
// them are few, and a test compares them with another implementation's.
//
// A run depends on its instants and on nothing else: the simulation decides the fate of each
// message, from its number on its connection, and each delivery has an instant of its own
// (see agenda.go).
//
// # Life
//
// NewWorld makes a World, in the bubble of its caller. World.Server adds servers, and
// Server.Link makes the link from one client to one server, which is the client's pool of
// connections. A connection is a Conn at the client, and a stream in the network and at
// the server. Their deliveries are events of the world's agenda. World.End ends the log;
// nothing else needs an end.
//
// # Goroutines and locks
//
// The package starts no goroutines but that of one timer, the world's alarm, in which all
// events happen, one after the other. World.mu protects all of a world: its servers, links
// and streams, and the arrived replies of Conns. Fates and the log are called under it,
// and must not call the world. The package takes no other lock under it but that of the
// map of compiled scripts, which all worlds share.
package simredis
