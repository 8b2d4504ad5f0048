import Foundation
import HTTPClient
import LoopTesting
import StoreTesting
import TestSupport
import Testing

/// Tests the real program with its store in PostgreSQL.
@Suite(
    "The program's store in PostgreSQL", .timeLimit(.minutes(10)), .serialized,
    .enabled(if: DatabaseServer.postgreSQL != nil, "PostgreSQL is not installed (Debian: postgresql)"))
struct PostgreSQLProgramTests {
    private func start() async throws -> (DatabaseServer, StoreFolder) {
        let server = try await DatabaseServer.startPostgreSQL([])
        return (server, try StoreFolder(on: "host=\(server.folder.path) user=sippushd dbname=postgres"))
    }

    private func settings(_ folder: StoreFolder) -> String {
        DaemonProgram.settings(folder, "  connections-per-source: 1000")
    }

    /// Registers users until the daemon accepts one again.
    private func recovery(of phone: ProgramPhone) async throws {
        for number in 0... {
            if try await phone.register("again\(number)").hasPrefix("SIP/2.0 200") { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    @Test func `a contact that was acknowledged survives kill -9`() async throws {
        let (server, folder) = try await start()
        let daemon = try await DaemonProgram(settings: settings(folder), in: folder)
        try await ProgramPhone.with(daemon) { phone async throws in
            #expect(try await phone.register("bob").hasPrefix("SIP/2.0 200"))
        }
        daemon.kill()
        _ = try await daemon.ended()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { again async throws in
            #expect(try again.bindingCount(of: "bob@example.net") == 1)
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path))
        await server.ended()
    }

    @Test func `while the server hangs or is down, new contacts get 503, and later 200`() async throws {
        let (server, folder) = try await start()
        try await DaemonProgram.with(settings: settings(folder), in: folder) { daemon async throws in
            try await ProgramPhone.with(daemon) { phone async throws in
                #expect(try await phone.register("bob").hasPrefix("SIP/2.0 200"))
                await server.stopped()
                for user in ["hung1", "hung2"] {
                    let answer = try await phone.register(user)
                    #expect(answer.hasPrefix("SIP/2.0 503") && answer.contains("\r\nRetry-After: "), "\(answer)")
                }
                #expect(try daemon.ask("/readyz").status == 503)
                server.continues()
                try await recovery(of: phone)
                await server.ended()
                for user in ["down1", "down2"] {
                    let answer = try await phone.register(user)
                    #expect(answer.hasPrefix("SIP/2.0 503") && answer.contains("\r\nRetry-After: "), "\(answer)")
                }
                try await server.startedAgain()
                try await recovery(of: phone)
                for user in ["hung1", "hung2", "down1", "down2"] {
                    #expect(try daemon.bindingCount(of: "\(user)@example.net") == 0)
                }
                let ready = try daemon.ask("/readyz")
                #expect(ready.status == 200)
                // The tests' servers have fsync off.
                #expect(String(decoding: ready.body, as: UTF8.self).contains("degraded"))
            }
        }
        try await DaemonProgram.with(settings: settings(folder), in: folder) { again async throws in
            #expect(try again.bindingCount(of: "bob@example.net") == 1)
            for user in ["hung1", "hung2", "down1", "down2"] {
                #expect(try again.bindingCount(of: "\(user)@example.net") == 0)
            }
        }
        await server.ended()
    }

    @Test func `doctor examines the database`() async throws {
        let (server, folder) = try await start()
        let file = try DaemonProgram.write(settings(folder), in: folder)
        let unsafe = try await DaemonProgram.run(["doctor", "--config", file], in: folder)
        #expect(unsafe.output.contains("fsync"), "\(unsafe)")
        await server.ended()
        let away = try await DaemonProgram.run(["doctor", "--config", file], in: folder)
        #expect(away.output.contains("Start the database"), "\(away)")
    }

    @Test func `without its server the daemon does not start, and says why`() async throws {
        let (server, folder) = try await start()
        await server.ended()
        let failure = await #expect(throws: DaemonProgram.Failure.self) {
            try await DaemonProgram(settings: settings(folder), in: folder)
        }
        #expect(failure?.sentence.contains("store postgresql \(server.folder.path) postgres: ") == true)
    }
}
