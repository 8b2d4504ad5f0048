package import Reactor
package import Testing

/// A loop on a thread of its own for the length of a test.
package func withLoop<Result: Sendable>(_ body: (EventLoop) async throws -> Result) async throws -> Result {
    let loop = try EventLoop()
    try loop.start(name: "test")
    defer {
        loop.stop()
        loop.join()
    }
    return try await body(loop)
}

/// A mailbox from the loop to the test: what is put in is awaited in order; the suite's time limit is the bound.
package final class Mailbox<Value: Sendable>: Sendable {
    private let stream: AsyncStream<Value>
    private let continuation: AsyncStream<Value>.Continuation

    package init() { (stream, continuation) = AsyncStream.makeStream() }

    package func put(_ value: Value) { continuation.yield(value) }

    package func next() async throws -> Value {
        var iterator = stream.makeAsyncIterator()
        return try #require(await iterator.next(), "nothing came before the time limit")
    }
}

extension Mailbox where Value: Equatable {
    /// These come next, in that order.
    package func expect(_ values: Value..., at place: SourceLocation = #_sourceLocation) async throws {
        for value in values {
            let came = try await next()
            #expect(came == value, sourceLocation: place)
        }
    }
}

/// Whatever a test makes on the loop, kept there.
package actor Bench {
    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    package init(_ loop: EventLoop) { self.loop = loop }

    package func run<Result: Sendable>(_ body: @Sendable (isolated Bench) throws -> Result) rethrows -> Result {
        try body(self)
    }
}
