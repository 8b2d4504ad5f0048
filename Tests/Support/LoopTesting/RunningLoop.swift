package import Reactor
package import Testing

/// Runs an event loop on its own thread while `body` runs.
package func withLoop<Result: Sendable>(_ body: (EventLoop) async throws -> Result) async throws -> Result {
    let loop = try EventLoop()
    try loop.start(name: "test")
    defer {
        loop.stop()
        loop.join()
    }
    return try await body(loop)
}

/// Passes values from the loop to the test, in order. A test that waits for a value has only the time limit of the
/// suite.
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
    /// Waits for the next values, and expects that they equal `values`.
    package func expect(_ values: Value..., at place: SourceLocation = #_sourceLocation) async throws {
        for value in values {
            let came = try await next()
            #expect(came == value, sourceLocation: place)
        }
    }
}

/// Keeps the objects that a test creates on the loop, and lets the test use them there.
package actor Bench {
    package let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

    package init(_ loop: EventLoop) { self.loop = loop }

    package func run<Result: Sendable>(_ body: @Sendable (isolated Bench) throws -> Result) rethrows -> Result {
        try body(self)
    }
}
