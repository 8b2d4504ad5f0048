import Foundation

/// A folder of its own for one test, removed with what is in it when the object goes, or earlier.
package final class TemporaryFolder: Sendable {
    package let path = NSTemporaryDirectory() + "sippushd-test-" + UUID().uuidString

    package init() throws { try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true) }

    deinit { remove() }

    /// For whoever uses the path alone, which does not keep the object, or gives it away to what may outlive the test.
    package func remove() { try? FileManager.default.removeItem(atPath: path) }

    package func file(_ name: String) -> String { path + "/" + name }

    /// Gives the file's path.
    @discardableResult
    package func write(_ bytes: [UInt8], to name: String) throws -> String {
        try Data(bytes).write(to: URL(filePath: file(name)))
        return file(name)
    }
}
