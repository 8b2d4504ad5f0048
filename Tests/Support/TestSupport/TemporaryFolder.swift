import Foundation

/// A temporary folder for one test, removed at the latest when the object is released.
package final class TemporaryFolder: Sendable {
    package let path = NSTemporaryDirectory() + "sippushd-test-" + UUID().uuidString

    package init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { remove() }

    /// Removes the folder with its contents. A test must call ``remove()`` if it keeps only the path, or has passed the
    /// path to code that outlives the test.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }

    package func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file into the folder, and returns the file's path.
    @discardableResult
    package func write(_ bytes: [UInt8], to name: String) throws -> String {
        try Data(bytes).write(to: URL(filePath: file(name)))
        return file(name)
    }
}
