import Bytes
import Crypto
import HTTP1Connections
import HTTPClient
import HTTPSemantics
package import Reactor
package import Registration
import Settings

/// Reads the public keys of the issuers of bearer tokens, from files or over HTTP.
///
/// - The type is `@unchecked Sendable`, because only its event loop uses it.
package final class KeySources: @unchecked Sendable {
    private let issuers: [BearerIssuerSettings]
    private let http: HTTPSession

    /// The time limit for reading an issuer's keys over HTTP. No SIP request waits while keys are read over HTTP.
    private static let timeout: Duration = .seconds(8)

    package init(_ settings: BearerSettings, on loop: EventLoop) {
        issuers = settings.inOrder.map(\.issuer)
        http = HTTPSession(on: loop, over: [HTTP1Transport.self])
    }

    /// Reads the keys of the issuer with the given index. The closure `done` is called once, on the event loop, perhaps
    /// before ``read(_:_:)`` returns.
    package func read(_ issuer: Int, _ done: @escaping (Result<[BearerKey], UserFault>) -> Void) {
        guard issuers.indices.contains(issuer) else { return }
        let settings = issuers[issuer]
        if let file = settings.keyFile { return done(Self.keys(at: file)) }
        guard let url = settings.jwksURL else { return }
        var request = HTTPClientRequest(
            url: url, headers: [HTTPField("Accept", "application/jwk-set+json, application/json")])
        request.timeout = Self.timeout
        request.responseLimit = KeySet.longest
        request.route.version = .http1
        request.route.authority = settings.caFile.map { .file($0) }
        http.send(request) { result in
            switch result {
            case .success(let response) where response.status == 200: done(Self.keys(in: response.body))
            // A redirect is not followed, because only the settings decide where the keys come from.
            case .success(let response):
                done(.failure(UserFault("the server answers \(response.status)", cure: Self.cure)))
            case .failure(let error): done(.failure(UserFault(error.sentence, cure: Self.cure)))
            }
        }
    }

    package func close() { http.close() }

    private static func keys(at file: String) -> Result<[BearerKey], UserFault> {
        do throws(SettingsError) {
            return keys(in: try SettingsFile.bytes(at: file, limit: KeySet.longest))
        } catch {
            return .failure(UserFault(error.description, cure: "Correct key-file, or the rights of the file."))
        }
    }

    private static func keys(in bytes: [UInt8]) -> Result<[BearerKey], UserFault> {
        do throws(UserFault) {
            return .success(try KeySet.keys(in: bytes))
        } catch {
            return .failure(error)
        }
    }

    private static let cure = "Check jwks-url, whether the server runs, and its certificate."
}

/// The keys of one issuer that `sippushd doctor` has read, or why they cannot be read.
package struct KeyFact: Hashable, Sendable {
    /// The name of the issuer of bearer tokens in the settings.
    package let name: String
    /// The keys in words, or why they cannot be read; `nil` if systemd has not passed the key file to this process.
    package let keys: Result<[String], UserFault>?

    package init(name: String, keys: Result<[String], UserFault>?) {
        self.name = name
        self.keys = keys
    }
}

extension KeySources {
    /// Reads the keys of all issuers, and calls `done` once with the results, on the event loop.
    package func check(_ settings: BearerSettings, _ done: @escaping ([KeyFact]) -> Void) {
        let names = settings.inOrder.map(\.name)
        let facts = Facts(missing: names.count, done)
        for (place, (name, issuer)) in settings.inOrder.enumerated() {
            let files = [issuer.keyFile, issuer.caFile].compactMap(\.self)
            if files.contains(where: { Credential.isMissing($0) && !Credential.isPassed }) {
                facts.add(KeyFact(name: name, keys: nil), at: place)
                continue
            }
            read(place) { keys in facts.add(KeyFact(name: name, keys: keys.map { $0.map(\.words) }), at: place) }
        }
        if names.isEmpty { done([]) }
    }

    /// Collects the results of all issuers, and calls `done` when the results are complete. Only the event loop uses
    /// ``Facts``.
    private final class Facts {
        private var found: [Int: KeyFact] = [:]
        private let missing: Int
        private let done: ([KeyFact]) -> Void

        init(missing: Int, _ done: @escaping ([KeyFact]) -> Void) {
            self.missing = missing
            self.done = done
        }

        func add(_ fact: KeyFact, at place: Int) {
            found[place] = fact
            if found.count == missing { done(found.sorted { $0.key < $1.key }.map(\.value)) }
        }
    }

    /// Reads the keys of all issuers in the settings on a new event loop, and waits for the results.
    package static func facts(of settings: BearerSettings) throws(SystemError) -> [KeyFact] {
        guard !settings.issuers.isEmpty else { return [] }
        let loop = try EventLoop()
        let sources = KeySources(settings, on: loop)
        var found: [KeyFact]?
        sources.check(settings) { facts in
            found = facts
            loop.stop()
        }
        // The loop runs only for keys over HTTP: results from files are already complete, and nothing would stop the
        // loop.
        if found == nil { loop.run() }
        sources.close()
        return found ?? []
    }
}
