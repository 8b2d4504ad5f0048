import Foundation

/// A folder for one test. It is removed with its contents when the object is released, or earlier.
package final class TemporaryFolder: Sendable {
    package let path = NSTemporaryDirectory() + "sippushd-test-" + UUID().uuidString

    package init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { remove() }

    /// Removes the folder. Call it in a test that uses only the path, because a path does not retain the object, or
    /// that passes the path to code that may outlive the test.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }

    package func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file, and returns its path.
    @discardableResult
    package func write(_ bytes: [UInt8], to name: String) throws -> String {
        try Data(bytes).write(to: URL(filePath: file(name)))
        return file(name)
    }
}
