import Addressing
import Crypto
import Foundation
import PushSandbox
import Reactor
import Timekeeping

/// The command line of the push sandbox.
@main
struct PushSandboxProgram {
    private static let help = """
        Usage: push-sandbox [options]

        Stands in for APNs (HTTP/2 over TLS) with its old feedback service, FCM v1 with its token service, FCM legacy, a web
        push service, Acrobits' mediator, and receivers of webhooks. Records every push as a line of JSON, and fails as it is
        told.

        Options:
          --listen HOST:PORT        TLS, HTTP/2 or HTTP/1.1 (default 127.0.0.1:8443; port 0 lets the system choose)
          --listen-plain HOST:PORT  HTTP/1.1 without TLS, and the controls (default 127.0.0.1:8080)
          --listen-feedback HOST:PORT
                                    Apple's feedback service, for clients that show DIR/app-certificate.pem (default: none)
          --streams N               requests that a connection may have open at a time in HTTP/2 (default 256)
          --first-streams N         as above, until its first push is accepted; APNs begins with 1 (default: no difference)
          --webhook-secret TEXT     refuse what comes to /hook without a sippushd-signature made with it; may be repeated
          --state DIR               where certificate and keys are made once (default .)
          --record FILE             where pushes are written (default: standard output)
          --on-push COMMAND         run by sh for each accepted push, with PUSH_SERVICE, PUSH_TOKEN, PUSH_TYPE, PUSH_BODY
          --help, --version

        DIR then holds ca.pem, apns-key.p8, service-account.json and app-certificate.pem for the daemon's settings.

        Services, on both ports:
          POST /3/device/TOKEN                         APNs
          POST /v1/projects/PROJECT/messages:send      FCM v1, with access tokens of POST /token
          POST /fcm/send                               FCM legacy
          POST /webpush/ID                             a web push subscription; with a payload only to a created one
          POST /pnm2/send, POST /pnm2                  Acrobits' mediator, in JSON and as a form
          any method on /hook/NAME                     a receiver of webhooks

        Controls, on the plain port:
          GET /sandbox/pushes[?token=TOKEN]   what was pushed; DELETE forgets it
          PUT /sandbox/tokens/TOKEN           how pushes to a token end; DELETE takes that back. All members are optional:
              {"status":410,"reason":"Unregistered","timestamp":MS,"retry_after":S,"delay_ms":MS,"times":N,
               "registration_id":TOKEN,"action":"goaway" or "reset"}
              TOKEN is also the ID of a subscription, and for webhooks the NAME or the member "token" of their body.
          A token such as fail-503-x fails with that status by itself.
          PUT /sandbox/subscriptions/ID       creates a web push subscription: answers endpoint, p256dh and auth; DELETE
              forgets it. With {"vapid":KEY} it takes pushes from the owner of that public key only.
          PUT /sandbox/feedback               what the next client of the feedback service gets; POST adds to it, GET shows
              it, DELETE takes it back:
              {"records":[{"token":HEX,"time":S}],"slice":BYTES,"partial":BYTES}
              A slice is sent at a time; without it all is sent at once. The last record may be partial.

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
        semantics.webhookSecrets = options.webhookSecrets
        let server = SandboxServer(loop: loop, semantics: semantics, streams: options.streams)
        let context = try TLSContext.server(
            certificate: .file(files.certificate), key: .file(files.certificateKey), protocols: ["h2", "http/1.1"])
        let secure = try listening(on: options.listen) { try server.listen(tls: options.listen, context) }
        let plain = try listening(on: options.plain) { try server.listen(plain: options.plain) }
        // Uses the plain port, so that a daemon without a certificate authority in its FCM settings can use it as well.
        try files.writeServiceAccount(tokenEndpoint: "http://\(reachable(plain))/token")
        semantics.webPushOrigin = "https://\(reachable(secure))"
        let feedback = FeedbackServer(loop: loop, semantics: semantics)
        let told = try options.feedback.map { endpoint in
            let context = try TLSContext.server(
                certificate: .file(files.certificate), key: .file(files.certificateKey),
                clientAuthority: .file(files.appCertificate))
            return " feedback=\(try listening(on: endpoint) { try feedback.listen(endpoint, context) })"
        }
        let signals = [
            try SignalWatch(.terminate, on: loop) { loop.stop() },
            try SignalWatch(.interrupt, on: loop) { loop.stop() },
        ]
        FileHandle.standardOutput.write(Data("listening tls=\(secure) plain=\(plain)\(told ?? "")\n".utf8))
        loop.run()
        withExtendedLifetime((signals, server, feedback)) {}
    }

    /// Adds the address to the system's error.
    private static func listening(on endpoint: Endpoint, _ listen: () throws -> Endpoint) throws -> Endpoint {
        do {
            return try listen()
        } catch let error as SystemError {
            throw Complaint("cannot listen on \(endpoint): \(error.reason)")
        }
    }

    /// The address of a listener for clients on this machine.
    private static func reachable(_ endpoint: Endpoint) -> Endpoint {
        endpoint.address.isUnspecified ? Endpoint(.loopbackV4, endpoint.port) : endpoint
    }
}

/// The options of the command line.
struct Options {
    var listen = Endpoint(.loopbackV4, 8443)
    var plain = Endpoint(.loopbackV4, 8080)
    var state = "."
    var record: String?
    var hook: String?
    var feedback: Endpoint?
    var streams = StreamLimits()
    var webhookSecrets: [[UInt8]] = []

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
            case "--listen-feedback": feedback = try Self.endpoint(value)
            case "--streams": streams.usual = try Self.streams(value)
            case "--first-streams": streams.first = try Self.streams(value)
            case "--webhook-secret": webhookSecrets.append(Array(value.utf8))
            default: throw Complaint("unknown option \(word); see --help")
            }
        }
    }

    private static func streams(_ text: String) throws -> Int {
        guard let number = Int(text), (1...10_000).contains(number) else {
            throw Complaint("\(text) is not a number from 1 to 10000")
        }
        return number
    }

    private static func endpoint(_ text: String) throws -> Endpoint {
        guard let endpoint = Endpoint(text) else { throw Complaint("\(text) is not HOST:PORT with a numeric host") }
        return endpoint
    }
}

struct Complaint: Error, CustomStringConvertible {
    let description: String
    init(_ sentence: String) { description = sentence }
}
