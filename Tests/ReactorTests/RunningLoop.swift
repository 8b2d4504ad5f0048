import Reactor
import Testing

/// A loop on a thread of its own for the length of a test.
func withLoop<Result: Sendable>(_ body: (EventLoop) async throws -> Result) async throws -> Result {
    let loop = try EventLoop()
    try loop.start(name: "test")
    defer {
        loop.stop()
        loop.join()
    }
    return try await body(loop)
}

/// A mailbox from the loop to the test: what is put in is awaited in order; the suite's time limit is the bound.
final class Mailbox<Value: Sendable>: Sendable {
    private let stream: AsyncStream<Value>
    private let continuation: AsyncStream<Value>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func put(_ value: Value) { continuation.yield(value) }

    func next() async throws -> Value {
        var iterator = stream.makeAsyncIterator()
        return try #require(await iterator.next(), "nothing came before the time limit")
    }
}

/// Whatever a test makes on the loop, kept there.
actor Bench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    init(_ loop: EventLoop) { self.loop = loop }

    func run<Result: Sendable>(_ body: @Sendable (isolated Bench) throws -> Result) rethrows -> Result {
        try body(self)
    }
}
