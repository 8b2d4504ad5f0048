import Glibc

/// Reads files up to a maximum size.
package enum SettingsFile {
    /// - Parameters:
    ///   - path: the path of the file; a relative path begins at the working directory.
    ///   - limit: the maximum size in bytes; a longer file is refused.
    /// - Returns: the bytes of the file.
    /// - Throws: a problem without line and column, if the file cannot be read.
    package static func bytes(at path: String, limit: Int) throws(SettingsError) -> [UInt8] {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(path, "cannot be opened: \(reason())") }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(path, "cannot be read: \(reason())") }
            guard count > 0 else { return bytes }
            bytes.append(contentsOf: chunk.prefix(count))
            guard bytes.count <= limit else { throw failure(path, "expected at most \(limit) bytes") }
        }
    }

    private static func failure(_ path: String, _ message: String) -> SettingsError {
        SettingsError([SettingsProblem(file: path, position: nil, message: message)])
    }

    private static func reason() -> String { unsafe String(cString: strerror(errno)) }
}
