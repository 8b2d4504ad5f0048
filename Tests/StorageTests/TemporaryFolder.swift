import Foundation

/// A folder of its own for one test, removed with what is in it.
final class TemporaryFolder: Sendable {
    let path = NSTemporaryDirectory() + "sippushd-test-" + UUID().uuidString

    init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
