import Addressing
import Foundation
import Glibc
import LoopTesting
import Reactor
import Testing

/// Tests that need a process of their own, because they change signals, limits and traps.
@Suite("Loop and process", .timeLimit(.minutes(10)))
struct ProcessTests {
    @Test func `signals come as events`() async {
        await #expect(processExitsWith: .success) {
            try await withLoop { loop in
                let watches = try await Bench(loop).run { try Watches(on: $0.loop) }
                for signal in [SIGHUP, SIGTERM, SIGINT, SIGHUP] { try await watches.expect(signal) }
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

    @Test func `without descriptors, accepting pauses and continues later`() async {
        await #expect(processExitsWith: .success) {
            try await StreamBench.with { bench in
                let target = try await bench.listen()
                let last = dup(0)
                close(last)
                // The limit of open files leaves one descriptor for the client's socket, and none for the server's
                // socket.
                var limit = rlimit()
                unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                limit.rlim_cur = rlim_t(last + 1)
                unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                try await bench.connect(to: target)
                let connected = try await bench.client.next()
                #expect(connected == .connected)
                // The client's connection waits in the kernel's queue until the server has a free descriptor again.
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
    func `signals reach a loop whose thread and watches come from two threads that block signals`()
        async
    {
        await #expect(processExitsWith: .success) {
            let loop = try EventLoop()
            let watches = try await onThreadWithoutSignals { try Watches(on: loop) }
            try await onThreadWithoutSignals { try loop.start() }
            try await watches.expect(SIGHUP)
            loop.stop()
            loop.join()
        }
    }

    @Test func `signals that the parent has blocked are received`() async {
        await #expect(processExitsWith: .success) {
            try await withLoop { loop in
                let watches = try await Bench(loop).run { bench in
                    blockSignals()
                    return try Watches(on: bench.loop)
                }
                for signal in [SIGHUP, SIGTERM, SIGINT] { try await watches.expect(signal) }
            }
        }
    }
}

private func blockSignals() {
    var all = sigset_t()
    unsafe sigfillset(&all)
    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
}

private func onThreadWithoutSignals<Made: Sendable>(
    _ body: @escaping @Sendable () throws -> Made
) async throws -> Made {
    let done = Mailbox<Result<Made, any Error>>()
    Thread {
        blockSignals()
        done.put(Result(catching: body))
    }.start()
    return try await done.next().get()
}

/// An event loop that watches three signals.
private struct Watches: Sendable {
    private let loop: EventLoop
    private let watches: [SignalWatch]
    /// The signals that the watches have reported; `nil` means that the time for waiting is over.
    private let told = Mailbox<Int32?>()

    init(on loop: EventLoop) throws {
        self.loop = loop
        let told = told
        watches = [
            try SignalWatch(.hangup, on: loop) { told.put(SIGHUP) },
            try SignalWatch(.terminate, on: loop) { told.put(SIGTERM) },
            try SignalWatch(.interrupt, on: loop) { told.put(SIGINT) },
        ]
    }

    /// Expects one report of the signal within ten turns of the loop. libevent needs two turns. The test sends the
    /// signal to the loop's thread, because other threads may block it.
    func expect(_ signal: Int32, at place: SourceLocation = #_sourceLocation) async throws {
        loop.post {
            raise(signal)
            loop.startTask { _ in
                for _ in 0..<10 { try? await loop.pause(.zero) }
                told.put(nil)
            }
        }
        var came: [Int32] = []
        while let next = try await told.next() { came.append(next) }
        #expect(came == [signal], sourceLocation: place)
    }
}
