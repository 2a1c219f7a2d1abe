package simredis

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// compiled are all scripts that were loaded, by their texts: they are the same in every
// simulation.
var compiled sync.Map // of *lua.FunctionProto

func compile(text string) (*lua.FunctionProto, error) {
	if known, ok := compiled.Load(text); ok {
		return known.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "script")
	if err != nil {
		return nil, err
	}
	compiled.Store(text, proto)
	return proto, nil
}

// scripts runs the servers' Lua. All servers of a world share one interpreter, since the
// scripts keep no state in it.
type scripts struct {
	lua    *lua.LState
	server *Server // whose script is running
	wrote  bool    // it has changed the memory
	known  map[*lua.FunctionProto]*lua.LFunction
}

func newScripts() *scripts {
	s := &scripts{lua: lua.NewState(lua.Options{SkipOpenLibs: true}), known: make(map[*lua.FunctionProto]*lua.LFunction)}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		s.lua.Push(s.lua.NewFunction(open))
		s.lua.Call(0, 0)
	}
	module := s.lua.NewTable()
	module.RawSetString("call", s.lua.NewFunction(func(l *lua.LState) int { return s.call(l, true) }))
	module.RawSetString("pcall", s.lua.NewFunction(func(l *lua.LState) int { return s.call(l, false) }))
	s.lua.SetGlobal("redis", module)
	return s
}

// call is redis.call, or redis.pcall.
func (s *scripts) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = l.Get(i + 1).String()
	}
	reply := s.execute(args)
	if err, bad := reply.(redis.Error); bad && raise {
		l.RaiseError("%s", string(err))
	}
	l.Push(s.toLua(reply))
	return 1
}

func (s *scripts) execute(args []string) any {
	if len(args) == 0 {
		return redis.Error("ERR Please specify at least one argument for this redis.call() call")
	}
	if err, refused := s.server.refuses(args[0], s.wrote); refused {
		return err
	}
	if _, change := changes[strings.ToUpper(args[0])]; change {
		s.wrote = true
	}
	if strings.EqualFold(args[0], "SET") && len(args) > 2 {
		if old := s.server.store.get(args[1], s.server.now()); old != nil && old.text != nil && string(old.text) != args[2] {
			s.server.replaced = append(s.server.replaced, string(old.text))
		}
	}
	reply, ok := s.server.data(args)
	if !ok {
		return redis.Error(fmt.Sprintf("ERR the simulation does not know %q", args))
	}
	return reply
}

// run executes a script at a server.
func (s *scripts) run(server *Server, text string, keys, argv []string) any {
	proto, err := compile(text)
	if err != nil {
		return redis.Error("ERR Error compiling script: " + err.Error())
	}
	f := s.known[proto]
	if f == nil {
		f = s.lua.NewFunctionFromProto(proto)
		s.known[proto] = f
	}
	s.server, s.wrote, server.replaced = server, false, nil
	s.lua.SetGlobal("KEYS", s.list(keys))
	s.lua.SetGlobal("ARGV", s.list(argv))
	if err := s.lua.CallByParam(lua.P{Fn: f, NRet: 1, Protect: true}); err != nil {
		return redis.Error("ERR " + err.Error())
	}
	reply := fromLua(s.lua.Get(-1))
	s.lua.Pop(1)
	return reply
}

func (s *scripts) list(values []string) *lua.LTable {
	t := s.lua.CreateTable(len(values), 0)
	for _, v := range values {
		t.Append(lua.LString(v))
	}
	return t
}

// toLua converts a reply to the value that scripts see.
func (s *scripts) toLua(reply any) lua.LValue {
	switch reply := reply.(type) {
	case int64:
		return lua.LNumber(reply)
	case []byte:
		return lua.LString(reply)
	case []any:
		t := s.lua.CreateTable(len(reply), 0)
		for _, r := range reply {
			t.Append(s.toLua(r))
		}
		return t
	case status:
		t := s.lua.NewTable()
		t.RawSetString("ok", lua.LString(reply))
		return t
	case redis.Error:
		t := s.lua.NewTable()
		t.RawSetString("err", lua.LString(reply))
		return t
	}
	return lua.LFalse // a nil reply
}

// fromLua converts a script's result to a reply.
func fromLua(v lua.LValue) any {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return []byte(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if ok, is := v.RawGetString("ok").(lua.LString); is {
			return status(ok)
		}
		if err, is := v.RawGetString("err").(lua.LString); is {
			return redis.Error(err)
		}
		all := []any{}
		for i := 1; ; i++ {
			item := v.RawGetInt(i)
			if item == lua.LNil {
				return all
			}
			all = append(all, fromLua(item))
		}
	}
	return nil
}
