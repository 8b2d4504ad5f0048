import Synchronization
import Telemetry

/// A log sink that stores lines in memory.
///
/// - The type is `@unchecked Sendable`, because a spin lock guards the lines. The thread sanitizer does not support
///   `Synchronization.Mutex` on Linux.
package final class MemoryLogSink: LogSink, @unchecked Sendable {
    private let isTaken = Atomic(false)
    private var kept: [String] = []

    package init() {}

    package func write(_ line: [UInt8]) -> Bool {
        take()
        kept.append(String(decoding: line, as: UTF8.self))
        isTaken.store(false, ordering: .releasing)
        return true
    }

    package var lines: [String] {
        take()
        defer { isTaken.store(false, ordering: .releasing) }
        return kept
    }

    private func take() {
        while !isTaken.compareExchange(expected: false, desired: true, ordering: .acquiring).exchanged {}
    }
}
