import Addressing
import Foundation
import Glibc
import LoopTesting
import Reactor
import Testing

/// What needs a process of its own: signals, limits and traps.
@Suite("Loop and process", .timeLimit(.minutes(1)))
struct ProcessTests {
    @Test func `signals come as events`() async {
        await #expect(processExitsWith: .success) {
            try await withLoop { loop in
                let mailbox = Mailbox<String>()
                let bench = Bench(loop)
                let watches = try await bench.run { bench in
                    [
                        try SignalWatch(.hangup, on: bench.loop) { mailbox.put("HUP") },
                        try SignalWatch(.terminate, on: bench.loop) { mailbox.put("TERM") },
                        try SignalWatch(.interrupt, on: bench.loop) { mailbox.put("INT") },
                    ]
                }
                for (signal, name) in [(SIGHUP, "HUP"), (SIGTERM, "TERM"), (SIGINT, "INT"), (SIGHUP, "HUP")] {
                    kill(getpid(), signal)
                    try await mailbox.expect(name)
                }
                withExtendedLifetime(watches) {}
            }
        }
    }

    @Test func `memory can be hidden from core dumps and other processes`() async {
        await #expect(processExitsWith: .success) {
            #expect(!ProcessMemory.isHidden)
            try ProcessMemory.hide()
            #expect(ProcessMemory.isHidden)
        }
    }

    @Test func `a call from a wrong thread traps`() async {
        await #expect(processExitsWith: .failure) {
            try await withLoop { loop in
                let running = Mailbox<Bool>()
                loop.post { running.put(true) }
                _ = try await running.next()
                _ = try UDPSocket(boundTo: Endpoint(.loopbackV4, 0), on: loop)
                exit(0)
            }
        }
    }

    @Test func `without descriptors accepting pauses and goes on later`() async {
        await #expect(processExitsWith: .success) {
            try await StreamBench.with { bench in
                let target = try await bench.listen()
                let last = dup(0)
                close(last)
                // One more for the client's socket, none for the server's.
                var limit = rlimit()
                unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                limit.rlim_cur = rlim_t(last + 1)
                unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                try await bench.connect(to: target)
                let connected = try await bench.client.next()
                #expect(connected == .connected)
                // The connection waits in the kernel's queue; its end on our side comes with descriptors.
                await bench.at(.client) { $0.send([1]) }
                limit.rlim_cur = limit.rlim_max
                unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                guard case .accepted = try await bench.server.next() else { exit(1) }
                let opened = try await bench.server.next()
                let bytes = try await bench.server.bytes(1)
                guard opened == .connected, bytes == [1] else { exit(1) }
            }
        }
    }

    @Test
    func `signals come to a loop whose thread was started by another one than made the watch, both without signals`()
        async
    {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop()
            let mailbox = Mailbox<String>()
            @Sendable func onThreadWithoutSignals(_ body: @escaping @Sendable () throws -> Void) async throws {
                let done = Mailbox<Bool>()
                Thread {
                    var all = sigset_t()
                    unsafe sigfillset(&all)
                    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
                    done.put((try? body()) != nil)
                }.start()
                try await done.expect(true)
            }
            let watches = Locked<[SignalWatch]>([])
            try await onThreadWithoutSignals {
                let watch = try SignalWatch(.hangup, on: loop) { mailbox.put("HUP") }
                watches.withLock { $0 = [watch] }
            }
            try await onThreadWithoutSignals { try loop.start() }
            // To the loop's thread: others may have it unblocked.
            loop.post { raise(SIGHUP) }
            try await mailbox.expect("HUP")
            loop.stop()
            loop.join()
        }
    }

    @Test func `signals that the parent had blocked come all the same`() async {
        await #expect(processExitsWith: .success) {
            try await withLoop { loop in
                let mailbox = Mailbox<String>()
                let bench = Bench(loop)
                let watches = try await bench.run { bench in
                    var all = sigset_t()
                    unsafe sigfillset(&all)
                    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
                    return [
                        try SignalWatch(.hangup, on: bench.loop) { mailbox.put("HUP") },
                        try SignalWatch(.terminate, on: bench.loop) { mailbox.put("TERM") },
                        try SignalWatch(.interrupt, on: bench.loop) { mailbox.put("INT") },
                    ]
                }
                for (signal, name) in [(SIGHUP, "HUP"), (SIGTERM, "TERM"), (SIGINT, "INT")] {
                    // To the loop's thread: others may have it unblocked.
                    _ = await bench.run { _ in raise(signal) }
                    try await mailbox.expect(name)
                }
                withExtendedLifetime(watches) {}
            }
        }
    }
}
