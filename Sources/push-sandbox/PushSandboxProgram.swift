import Addressing
import Crypto
import Foundation
import PushSandbox
import Reactor
import Timekeeping

/// The command line of the stand-in for push providers.
@main
struct PushSandboxProgram {
    private static let help = """
        Usage: push-sandbox [options]

        Stands in for APNs (HTTP/2 over TLS), FCM v1 with its token service, and FCM legacy. Records every push as a line of
        JSON, and fails as it is told.

        Options:
          --listen HOST:PORT        TLS, HTTP/2 or HTTP/1.1 (default 127.0.0.1:8443; port 0 lets the system choose)
          --listen-plain HOST:PORT  HTTP/1.1 without TLS, and the controls (default 127.0.0.1:8080)
          --state DIR               where certificate and keys are made once (default .)
          --record FILE             where pushes are written (default: standard output)
          --on-push COMMAND         run by sh for each accepted push, with PUSH_SERVICE, PUSH_TOKEN, PUSH_TYPE, PUSH_BODY
          --help, --version

        DIR then holds ca.pem, apns-key.p8 and service-account.json for the daemon's settings.

        Controls, on the plain port:
          GET /sandbox/pushes[?token=TOKEN]   what was pushed; DELETE forgets it
          PUT /sandbox/tokens/TOKEN           how pushes to a token end; DELETE takes that back. All members are optional:
              {"status":410,"reason":"Unregistered","timestamp":MS,"retry_after":S,"delay_ms":MS,"times":N,
               "action":"goaway" or "reset"}
          A token such as fail-503-x fails with that status by itself.

        """

    static func main() {
        do {
            try run(Array(CommandLine.arguments.dropFirst()))
        } catch {
            FileHandle.standardError.write(Data("push-sandbox: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func run(_ words: [String]) throws {
        if words.contains("--help") { return print(help, terminator: "") }
        if words.contains("--version") { return print("push-sandbox 0.1.0") }
        let options = try Options(words)
        let files = try StateFiles(folder: options.state)
        let loop = try EventLoop()
        let semantics = ProviderSemantics(
            apnsKey: try ProviderKey(.file(files.apnsKey), for: .es256),
            accountKey: try ProviderKey(.file(files.accountKey), for: .rs256)
        ) { SystemClock.moment.date.milliseconds }
        let recorder = try Recorder(file: options.record)
        let hook = try options.hook.map { try PushHook($0, on: loop) }
        semantics.recorded = { record in
            recorder.write(record)
            if record.isAccepted { hook?.pushAccepted(record) }
        }
        let server = SandboxServer(loop: loop, semantics: semantics)
        let context = try TLSContext.server(
            certificate: .file(files.certificate), key: .file(files.certificateKey), protocols: ["h2", "http/1.1"])
        let secure = try server.listen(tls: options.listen, context)
        let plain = try server.listen(plain: options.plain)
        // By the plain port: a daemon whose FCM settings name no certificate authority can use it as well.
        let reachable = plain.address.isUnspecified ? Endpoint(.loopbackV4, plain.port) : plain
        try files.writeServiceAccount(tokenEndpoint: "http://\(reachable)/token")
        let signals = [
            try SignalWatch(.terminate, on: loop) { loop.stop() },
            try SignalWatch(.interrupt, on: loop) { loop.stop() },
        ]
        FileHandle.standardOutput.write(Data("listening tls=\(secure) plain=\(plain)\n".utf8))
        loop.run()
        withExtendedLifetime((signals, server)) {}
    }
}

/// What was asked for.
struct Options {
    var listen = Endpoint(.loopbackV4, 8443)
    var plain = Endpoint(.loopbackV4, 8080)
    var state = "."
    var record: String?
    var hook: String?

    init(_ words: [String]) throws {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard let value = rest.popFirst(), !value.isEmpty else {
                throw Complaint("\(word) needs a value; see --help")
            }
            switch word {
            case "--listen": listen = try Self.endpoint(value)
            case "--listen-plain": plain = try Self.endpoint(value)
            case "--state": state = value
            case "--record": record = value
            case "--on-push": hook = value
            default: throw Complaint("unknown option \(word); see --help")
            }
        }
    }

    private static func endpoint(_ text: String) throws -> Endpoint {
        guard let endpoint = Endpoint(text) else { throw Complaint("\(text) is no HOST:PORT with a numeric host") }
        return endpoint
    }
}

struct Complaint: Error, CustomStringConvertible {
    let description: String
    init(_ sentence: String) { description = sentence }
}
