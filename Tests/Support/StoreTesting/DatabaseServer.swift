package import Crypto
import Foundation
import Glibc
import Testing
package import TestSupport

/// A database server that a test starts in a temporary folder, and that ends when the object is released.
///
/// - `@unchecked Sendable` because only one test uses the object.
package final class DatabaseServer: @unchecked Sendable {
    package let folder: TemporaryFolder
    private var process = Process()
    private let program: String
    private let arguments: [String]
    private let ready: String
    private let hasEnded = DispatchSemaphore(value: 0)

    /// Starts a server, and returns when the server has printed that it is ready.
    ///
    /// - Parameters:
    ///   - program: the path of the server's executable.
    ///   - arguments: the command-line arguments, in which FOLDER stands for the temporary folder.
    ///   - ready: the text that the server prints when it is ready.
    ///   - folder: the folder of the server's files.
    ///   - prepare: creates the files of the server.
    /// - Throws: an error if the database server ends before it is ready.
    package init(
        _ program: String, _ arguments: [String], ready: String, in folder: TemporaryFolder,
        _ prepare: (TemporaryFolder) throws -> Void
    ) throws {
        self.folder = folder
        (self.program, self.arguments, self.ready) = (program, arguments, ready)
        try prepare(folder)
        try start()
    }

    /// Starts the server's program, and returns when the server has printed that it is ready.
    private func start() throws {
        let output = Pipe()
        process = Process()
        process.executableURL = URL(filePath: "/usr/bin/setpriv")
        process.arguments = Self.privileges + [program] + arguments.map { $0.replacing("FOLDER", with: folder.path) }
        process.standardOutput = output
        process.standardError = output
        process.currentDirectoryURL = URL(filePath: folder.path)
        process.terminationHandler = { [hasEnded] _ in hasEnded.signal() }
        try process.run()
        // FileHandle is not used for reading, because it traps when a signal interrupts it.
        let descriptor = dup(output.fileHandleForReading.fileDescriptor)
        var text: [UInt8] = []
        while !String(decoding: text, as: UTF8.self).contains(ready) {
            let bytes = Self.read(descriptor)
            guard !bytes.isEmpty else {
                close(descriptor)
                throw Failed(text: String(decoding: text, as: UTF8.self))
            }
            text += bytes
        }
        // Later output is read and dropped, so that the server never blocks on a full pipe.
        Thread.detachNewThread {
            while !Self.read(descriptor).isEmpty {}
            close(descriptor)
        }
    }

    /// The next bytes of a pipe; empty at the end.
    private static func read(_ descriptor: Int32) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            return Array(buffer.prefix(max(0, count)))
        }
    }

    deinit {
        signal(SIGCONT)
        end()
        folder.remove()
    }

    package struct Failed: Error { package let text: String }

    /// The arguments of `setpriv`, which run the server as another user if the test runs as root: PostgreSQL refuses
    /// root.
    static var privileges: [String] {
        getuid() == 0 ? ["--reuid", "65534", "--regid", "65534", "--clear-groups"] : ["--"]
    }

    /// Runs a program with the rights of the server, and waits until the program has ended.
    package static func run(_ program: String, _ arguments: [String], input: String? = nil) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/setpriv")
        process.arguments = privileges + [program] + arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        let source = Pipe()
        process.standardInput = source
        let hasEnded = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in hasEnded.signal() }
        try process.run()
        if let input { source.fileHandleForWriting.write(Data(input.utf8)) }
        try source.fileHandleForWriting.close()
        var said: [UInt8] = []
        while case let bytes = Self.read(output.fileHandleForReading.fileDescriptor), !bytes.isEmpty { said += bytes }
        let text = String(decoding: said, as: UTF8.self)
        hasEnded.wait()
        guard process.terminationStatus == 0 else { throw Failed(text: text) }
    }

    /// Suspends the server by SIGSTOP, and returns when the kernel reports that all threads of its process have
    /// stopped.
    package func stopped() async {
        signal(SIGSTOP)
        await withCheckedContinuation { waiter in
            Thread.detachNewThread {
                var info = unsafe siginfo_t()
                _ = unsafe waitid(P_PID, id_t(self.process.processIdentifier), &info, WSTOPPED | WNOWAIT)
                waiter.resume()
            }
        }
    }

    /// Resumes a server that ``stopped()`` has suspended.
    package func continues() { signal(SIGCONT) }

    /// Sends a signal to the server's process and its child processes.
    private func signal(_ number: Int32) {
        for process in family { kill(process, number) }
    }

    /// Ends the server by SIGQUIT, and waits until its process has ended.
    package func end() {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGQUIT)
        hasEnded.wait()
    }

    /// The process ids of the server and its child processes.
    private var family: [Int32] {
        let parent = process.processIdentifier
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        let children = all.compactMap { Int32($0) }.filter { number in
            guard let text = try? String(contentsOfFile: "/proc/\(number)/stat", encoding: .utf8) else { return false }
            return text.split(separator: ")").last?.split(separator: " ").dropFirst().first == Substring("\(parent)")
        }
        return [parent] + children
    }
}

extension DatabaseServer {
    /// The folder of PostgreSQL's programs; `nil` if PostgreSQL is not installed.
    package static let postgreSQL: String? = {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).sorted()
        guard let version = versions.last else { return nil }
        let folder = "\(root)/\(version)/bin"
        return FileManager.default.isExecutableFile(atPath: folder + "/initdb") ? folder : nil
    }()

    package static let mariaDB: String? =
        FileManager.default.isExecutableFile(atPath: "/usr/sbin/mariadbd") ? "/usr/sbin/mariadbd" : nil

    /// The TCP port of a database server, and its TLS certificate.
    package struct Listener {
        let port: UInt16
        let certificate: SelfSignedCertificate

        package init(port: UInt16, certificate: SelfSignedCertificate) {
            (self.port, self.certificate) = (port, certificate)
        }
    }

    /// Starts a PostgreSQL server on a Unix socket in its folder, and on TCP with the password s3cret if `listener` is
    /// given.
    package static func startPostgreSQL(_ statements: [String], at listener: Listener? = nil) async throws
        -> DatabaseServer
    {
        let programs = try #require(postgreSQL)
        var arguments = ["-D", "FOLDER/data", "-k", "FOLDER", "-c", "fsync=off"]
        if let listener {
            arguments += [
                "-c", "listen_addresses=127.0.0.1", "-p", "\(listener.port)", "-c", "ssl=on", "-c",
                "ssl_cert_file=FOLDER/cert.pem", "-c", "ssl_key_file=FOLDER/key.pem",
            ]
        } else {
            arguments += ["-c", "listen_addresses="]
        }
        return try await started(
            "\(programs)/postgres", arguments, ready: "ready to accept connections", in: try sharedFolder()
        ) { folder in
            try run(
                "\(programs)/initdb",
                [
                    "-D", folder.file("data"), "-U", "sippushd", "--auth-local=trust", "--auth-host=scram-sha-256",
                    "-E", "UTF8", "--locale=C", "--no-sync",
                ])
            let all = statements + ["ALTER ROLE sippushd PASSWORD 's3cret'"]
            try run(
                "\(programs)/postgres", ["--single", "-j", "-D", folder.file("data"), "postgres"],
                input: all.map { "\($0);\n\n" }.joined())
            try write(listener, in: folder)
        }
    }

    /// Starts a MariaDB server with the database `test` on the Unix socket `s` in its folder, and on TCP if `listener`
    /// is given.
    package static func startMariaDB(_ statements: [String], at listener: Listener? = nil) async throws
        -> DatabaseServer
    {
        var arguments = [
            "--no-defaults", "--datadir=FOLDER/data", "--socket=FOLDER/s", "--pid-file=FOLDER/pid",
            "--tmpdir=FOLDER", "--skip-grant-tables", "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M",
            "--init-file=FOLDER/init.sql",
        ]
        if let listener {
            // With --skip-grant-tables, MariaDB listens on TCP only if --skip-networking=0 is given.
            arguments += [
                "--skip-networking=0", "--bind-address=127.0.0.1", "--port=\(listener.port)",
                "--ssl-cert=FOLDER/cert.pem", "--ssl-key=FOLDER/key.pem",
            ]
        } else {
            arguments.append("--skip-networking")
        }
        return try await started(
            try #require(mariaDB), arguments, ready: "ready for connections", in: try sharedFolder()
        ) { folder in
            let all = ["CREATE DATABASE test", "USE test"] + statements
            try folder.write(Array(all.map { "\($0);\n" }.joined().utf8), to: "init.sql")
            try run("/bin/mkdir", [folder.file("data")])
            try write(listener, in: folder)
        }
    }

    /// Writes the certificate, and the key as a file that only the server's Unix user may read.
    private static func write(_ listener: Listener?, in folder: TemporaryFolder) throws {
        guard let listener else { return }
        try folder.write(listener.certificate.certificate, to: "cert.pem")
        try run(
            "/usr/bin/install",
            ["-m", "600", try folder.write(listener.certificate.key, to: "key.in"), folder.file("key.pem")])
    }

    /// Starts a server on a new thread, because the start blocks its thread, and the tests' threads must not block.
    private static func started(
        _ program: String, _ arguments: [String], ready: String, in folder: TemporaryFolder,
        _ prepare: @escaping @Sendable (TemporaryFolder) throws -> Void
    ) async throws -> DatabaseServer {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread {
                waiter.resume(
                    with: Result {
                        try DatabaseServer(program, arguments, ready: ready, in: folder, prepare)
                    })
            }
        }
    }

    /// Ends the server on a new thread, so that the test's thread does not block.
    package func ended() async {
        await withCheckedContinuation { waiter in
            Thread.detachNewThread {
                self.end()
                waiter.resume()
            }
        }
    }

    /// Starts the server again after its end, with its data.
    package func startedAgain() async throws {
        try await withCheckedThrowingContinuation { waiter in
            Thread.detachNewThread { waiter.resume(with: Result { try self.start() }) }
        }
    }

    /// A temporary folder in which the server's Unix user may write.
    private static func sharedFolder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        return folder
    }
}
