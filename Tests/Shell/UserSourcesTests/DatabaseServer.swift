import Crypto
import Foundation
import Testing
import TestSupport

/// A database server of the test's own in a temporary folder. It is ended with the object.
///
/// - `@unchecked Sendable` because one test uses it.
final class DatabaseServer: @unchecked Sendable {
    let folder: TemporaryFolder
    private let process = Process()
    private let output = Pipe()
    private let hasEnded = DispatchSemaphore(value: 0)

    /// Starts a server, and returns when it says that it is ready.
    ///
    /// - Parameters:
    ///   - program: the path of the server's program.
    ///   - arguments: the arguments; FOLDER stands for the temporary folder.
    ///   - ready: the words that the server writes when it is ready.
    ///   - folder: the folder of the server's files.
    ///   - prepare: makes the files of the server.
    /// - Throws: if the server ends before it is ready.
    init(
        _ program: String, _ arguments: [String], ready: String, in folder: TemporaryFolder,
        _ prepare: (TemporaryFolder) throws -> Void
    ) throws {
        self.folder = folder
        try prepare(folder)
        process.executableURL = URL(filePath: "/usr/bin/setpriv")
        process.arguments = Self.privileges + [program] + arguments.map { $0.replacing("FOLDER", with: folder.path) }
        process.standardOutput = output
        process.standardError = output
        process.currentDirectoryURL = URL(filePath: folder.path)
        process.terminationHandler = { [hasEnded] _ in hasEnded.signal() }
        try process.run()
        var text = ""
        while !text.contains(ready) {
            let bytes = output.fileHandleForReading.availableData
            guard !bytes.isEmpty else { throw Failed(text: text) }
            text += String(decoding: bytes, as: UTF8.self)
        }
        // Later output is dropped, so that the server never waits for a reader.
        output.fileHandleForReading.readabilityHandler = { _ = $0.availableData }
    }

    deinit {
        signal(SIGCONT)
        end()
        folder.remove()
    }

    struct Failed: Error { let text: String }

    /// PostgreSQL refuses to run as root.
    static var privileges: [String] {
        getuid() == 0 ? ["--reuid", "65534", "--regid", "65534", "--clear-groups"] : ["--"]
    }

    /// Runs a program to its end with the rights of the server.
    static func run(_ program: String, _ arguments: [String], input: String? = nil) throws {
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
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        hasEnded.wait()
        guard process.terminationStatus == 0 else { throw Failed(text: text) }
    }

    /// Stops the server, and returns when all its threads stand still. The threads of a process stop only after one of
    /// them has taken the signal.
    func stopped() async {
        signal(SIGSTOP)
        await withCheckedContinuation { waiter in
            Thread.detachNewThread {
                var info = unsafe siginfo_t()
                _ = unsafe waitid(P_PID, id_t(self.process.processIdentifier), &info, WSTOPPED | WNOWAIT)
                waiter.resume()
            }
        }
    }

    /// Continues the server after ``stopped()``.
    func continues() { signal(SIGCONT) }

    /// Sends a signal to the server and all its processes.
    private func signal(_ number: Int32) {
        for process in family { kill(process, number) }
    }

    /// Ends the server, and waits until it has ended.
    func end() {
        guard process.isRunning else { return }
        kill(process.processIdentifier, SIGQUIT)
        hasEnded.wait()
    }

    /// The server's process and its children.
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
    /// The folder of PostgreSQL's programs; `nil` if the server is not installed.
    static let postgreSQL: String? = {
        let root = "/usr/lib/postgresql"
        let versions = ((try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []).sorted()
        guard let version = versions.last else { return nil }
        let folder = "\(root)/\(version)/bin"
        return FileManager.default.isExecutableFile(atPath: folder + "/initdb") ? folder : nil
    }()

    static let mariaDB: String? =
        FileManager.default.isExecutableFile(atPath: "/usr/sbin/mariadbd") ? "/usr/sbin/mariadbd" : nil

    /// The TCP port of a server, and its certificate.
    struct Listener {
        let port: UInt16
        let certificate: SelfSignedCertificate
    }

    /// A PostgreSQL server with the database postgres, which listens in its folder, and on a port if there is a
    /// listener. Over TCP the password is s3cret.
    static func startPostgreSQL(_ statements: [String], at listener: Listener? = nil) async throws -> DatabaseServer {
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

    /// A MariaDB server with the database test, which listens on the socket `s` of its folder, and on a port if there is
    /// a listener.
    static func startMariaDB(_ statements: [String], at listener: Listener? = nil) async throws -> DatabaseServer {
        var arguments = [
            "--no-defaults", "--datadir=FOLDER/data", "--socket=FOLDER/s", "--pid-file=FOLDER/pid",
            "--tmpdir=FOLDER", "--skip-grant-tables", "--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M",
            "--init-file=FOLDER/init.sql",
        ]
        if let listener {
            // Without tables of users it does not listen, unless it is told to.
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

    /// Writes certificate and key. The key belongs to the server's user.
    private static func write(_ listener: Listener?, in folder: TemporaryFolder) throws {
        guard let listener else { return }
        try folder.write(listener.certificate.certificate, to: "cert.pem")
        try run(
            "/usr/bin/install",
            ["-m", "600", try folder.write(listener.certificate.key, to: "key.in"), folder.file("key.pem")])
    }

    /// Starts a server on a thread of its own, because the start waits, and the threads of tests must not.
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

    /// Ends the server, on a thread of its own.
    func ended() async {
        await withCheckedContinuation { waiter in
            Thread.detachNewThread {
                self.end()
                waiter.resume()
            }
        }
    }

    /// A folder in which the server's user may write.
    private static func sharedFolder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        try FileManager.default.setAttributes([.posixPermissions: 0o777], ofItemAtPath: folder.path)
        return folder
    }
}
