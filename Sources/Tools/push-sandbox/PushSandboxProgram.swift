import Addressing
import Crypto
import Foundation
import PushSandbox
import Reactor
import Timekeeping

/// The main program of `push-sandbox`.
@main
struct PushSandboxProgram {
    private static let help = """
        Usage: push-sandbox [options]

        Imitates APNs (HTTP/2 over TLS) with its old feedback service, FCM v1 with its token service, FCM legacy, a web push
        service, a push server of UnifiedPush, Acrobits' push server, RuStore, Huawei's Push Kit, and receivers of webhooks. It
        records every push as a line of JSON, and fails on request.

        Options:
          --listen HOST:PORT        TLS, HTTP/2 or HTTP/1.1 (default 127.0.0.1:8443; port 0 lets the system choose)
          --listen-plain HOST:PORT  HTTP/1.1 without TLS, and the controls (default 127.0.0.1:8080)
          --listen-feedback HOST:PORT
                                    Apple's feedback service, for clients with DIR/app-certificate.pem (default: none)
          --streams N               maximum number of simultaneous requests on an HTTP/2 connection (default 256)
          --first-streams N         the same until its first push is accepted; APNs begins with 1 (default: as --streams)
          --webhook-secret TEXT     refuse requests to /hook without a sippushd-signature by this secret; may be repeated
          --state DIR               folder in which certificate and keys are created once (default .)
          --record FILE             file to which pushes are written (default: standard output)
          --apns-topic TOPIC        refuse other topics; may be repeated
          --fcm-project PROJECT     refuse other projects; may be repeated
          --clock-lead SECONDS      how far the clock of these services is ahead, negative for behind; answers have it in Date
          --on-push COMMAND         sh runs it for each accepted push, with PUSH_SERVICE, PUSH_TOKEN, PUSH_TYPE, PUSH_BODY
          --help, --version

        DIR then has ca.pem, apns-key.p8, service-account.json and app-certificate.pem for the daemon's settings.

        Services, on both ports:
          POST /3/device/TOKEN                         APNs
          POST /v1/projects/PROJECT/messages:send      FCM v1, with access tokens of POST /token
                                                       RuStore, with a service token that begins with rustore-
          POST /v1/APP/messages:send                   Huawei's Push Kit, with access tokens of POST /oauth2/v3/token
                                                       for client secrets that begin with hms-
          POST /fcm/send                               FCM legacy
          POST /webpush/ID                             a web push subscription; a payload needs one that was created
          POST /up/ID                                  a push server of UnifiedPush; needs a subscription that was created
          POST /pnm2/send, POST /pnm2                  Acrobits' push server, in JSON and as a form
          any method on /hook/NAME                     a receiver of webhooks

        Controls, on the plain port:
          GET /sandbox/pushes[?token=TOKEN]   lists the recorded pushes; DELETE removes them
          GET /sandbox/trials                 lists requests that tried credentials and reached no device
          PUT /sandbox/tokens/TOKEN           plans failures of pushes to a token; DELETE removes the plan. All members
              are optional:
              {"status":410,"reason":"Unregistered","timestamp":MS,"retry_after":S,"delay_ms":MS,"times":N,
               "registration_id":TOKEN,"action":"goaway" or "reset"}
              TOKEN is also the ID of a subscription, and for webhooks the NAME or the member "token" of their body.
          A token such as fail-503-x fails with the status in its name, without a plan.
          PUT /sandbox/subscriptions/ID       creates a web push subscription and returns endpoint, p256dh and auth; DELETE
              removes it. With {"vapid":KEY} it accepts pushes only from the owner of this public key. With
              {"service":"unifiedpush"} the endpoint is /up/ID.
          PUT /sandbox/feedback               sets the list for the next client of the feedback service; POST adds to the
              list, GET shows it, DELETE empties it:
              {"records":[{"token":HEX,"time":S}],"slice":BYTES,"partial":BYTES}
              With a slice, this many bytes are sent at a time; otherwise all at once. With a partial, an incomplete record
              follows.

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
        ) { (SystemClock.moment.date + options.clockLead).milliseconds }
        if !options.topics.isEmpty { semantics.topics = options.topics }
        if !options.projects.isEmpty { semantics.projects = options.projects }
        let recorder = try Recorder(file: options.record)
        let hook = try options.hook.map { try PushHook($0, on: loop) }
        semantics.recorded = { record in
            recorder.write(record)
            if record.isAccepted { hook?.pushAccepted(record) }
        }
        semantics.webhookSecrets = options.webhookSecrets
        let server = SandboxServer(
            loop: loop, semantics: semantics, streams: options.streams, clockLead: options.clockLead)
        let context = try TLSContext.server(
            certificate: .file(files.certificate), key: .file(files.certificateKey), protocols: ["h2", "http/1.1"])
        let secure = try listening(on: options.listen) { try server.listen(tls: options.listen, context) }
        let plain = try listening(on: options.plain) { try server.listen(plain: options.plain) }
        // The service account names the plain port as token service, so that FCM settings need no certificate
        // authority.
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

    /// Makes the push sandbox listen on an address; an error names the address.
    private static func listening(on endpoint: Endpoint, _ listen: () throws -> Endpoint) throws -> Endpoint {
        do {
            return try listen()
        } catch let error as SystemError {
            throw Complaint("cannot listen on \(endpoint): \(error.reason)")
        }
    }

    /// The address by which clients on this machine reach a listener; a loopback address if it is bound to all
    /// addresses.
    private static func reachable(_ endpoint: Endpoint) -> Endpoint {
        endpoint.address.isUnspecified ? Endpoint(.loopbackV4, endpoint.port) : endpoint
    }
}

/// The command-line options of `push-sandbox`.
struct Options {
    var listen = Endpoint(.loopbackV4, 8443)
    var plain = Endpoint(.loopbackV4, 8080)
    var state = "."
    var record: String?
    var hook: String?
    var feedback: Endpoint?
    var streams = StreamLimits()
    var webhookSecrets: [[UInt8]] = []
    var topics: Set<String> = []
    var projects: Set<String> = []
    var clockLead: Duration = .zero

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
            case "--apns-topic": topics.insert(value)
            case "--fcm-project": projects.insert(value)
            case "--clock-lead": clockLead = .seconds(try Self.seconds(value))
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

    private static func seconds(_ text: String) throws -> Int64 {
        guard let number = Int64(text), number.magnitude <= 1_000_000_000 else {
            throw Complaint("\(text) is not a number of seconds")
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
