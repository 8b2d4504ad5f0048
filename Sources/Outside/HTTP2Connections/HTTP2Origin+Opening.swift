import Addressing
import Crypto
import HTTPClient
import Reactor
import Timekeeping

extension HTTP2Origin {
    /// One attempt to open a connection, which tries the server's addresses one after the other.
    final class Opening {
        let began: Instant
        let end: Instant
        var candidates: [Endpoint] = []
        var connection: HTTP2Connection?

        init(began: Instant, timeout: Duration) {
            self.began = began
            end = began + timeout
        }
    }

    /// After this time, new connections get a new TLS context, which reads changed certificate files.
    private static let contextTime: Duration = .seconds(60)
    /// The pause after a failed attempt to open an additional connection while a good one exists.
    private static let sparePause: Duration = .seconds(1)
    private static let addressLimit = 8

    // MARK: When connections open

    /// Opens a connection although no request waits, and replaces it whenever it ends.
    func keepWarm() {
        isKeptWarm = true
        flushSoon()
    }

    func openIfWanted(now: Instant) {
        guard opening == nil else { return }
        let good = connections.filter(\.isGood)
        guard good.isEmpty else {
            guard waiting.count > 0, good.count < limits.connectionsPerHost, now >= nextSpare,
                good.allSatisfy(\.isUsedUp)
            else { return }
            return open(now: now)
        }
        if waiting.count > 0 || connections.contains(where: \.isSick) { return open(now: now) }
        guard isKeptWarm, speaksHTTP2 else { return }
        if now >= nextWarm { open(now: now) } else { warmTimer?.arm(at: nextWarm) }
    }

    /// Handles the end of a connection, and decides when the next connection can be opened. After a connection that
    /// lasted long enough, the next connection can be opened immediately. After a shorter connection, the next
    /// connection waits for a pause or for a request.
    func noteEnd(of connection: HTTP2Connection) {
        if connection.hasWorked, loop.now >= connection.opened + limits.longestWarmPause {
            warmPause = limits.firstWarmPause
            nextWarm = .distantPast
        }
    }

    // MARK: How they open

    private func open(now: Instant) {
        nextWarm = now + warmPause
        warmPause = min(warmPause * 2, limits.longestWarmPause)
        let first = waiting.first
        first?.opensConnection = true
        let opening = Opening(
            began: now, timeout: first?.request.connectTimeout ?? HTTPClientRequest.standardConnectTimeout)
        self.opening = opening
        if let proxy = key.proxy { return resolve(proxy, opening) }
        if let address = key.address { return resolved(opening, .success([Endpoint(address, key.target.port)])) }
        names.resolve(key.target) { [weak self] in self?.resolved(opening, $0) }
    }

    /// Resolves the proxy's name; the proxy resolves the server's name.
    private func resolve(_ proxy: HTTPProxy, _ opening: Opening) {
        guard let target = proxy.target else { return failed(proxy.error(.unresolved("it is not a host name"))) }
        names.resolve(target) { [weak self] result in
            self?.resolved(opening, result.mapError { proxy.error(.unresolved($0.detail)) })
        }
    }

    /// The error of requests whose time limit passes before the proxy has answered; `nil` after the proxy's answer.
    var openingDelay: HTTPClientError? {
        guard let proxy = key.proxy, let opening else { return nil }
        guard let connection = opening.connection else { return proxy.error(.unresolved("no answer in time")) }
        return connection.relayDelay.map { proxy.error(.tunnel($0)) }
    }

    private func resolved(_ opening: Opening, _ result: Result<[Endpoint], HTTPClientError>) {
        guard self.opening === opening else { return }
        switch result {
        case .success(let candidates):
            let reachable = candidates.filter { $0.address.isV4 == (limits.source ?? $0.address).isV4 }
            opening.candidates = reachable.prefix(Self.addressLimit).reversed()
            connectNext(opening, HTTPClientError(.resolve, detail: "no address"))
        case .failure(let error): failed(error)
        }
    }

    /// Tries the server's next address; `error` is the failure of the previous address.
    private func connectNext(_ opening: Opening, _ error: HTTPClientError) {
        let now = loop.now
        let count = opening.candidates.count
        guard now < opening.end, let endpoint = opening.candidates.popLast() else { return failed(error) }
        do throws(HTTPClientError) {
            let session = try makeTLSSession(now: now)
            // The remaining time is divided among the remaining addresses, each of which may fail to respond.
            let timeout = (opening.end - now) / count
            do throws(SystemError) {
                opening.connection = try HTTP2Connection(for: self, to: endpoint, tls: session, timeout: timeout)
            } catch {
                throw HTTPClientError(.connect, detail: error.description)
            }
        } catch {
            failed(error)
        }
    }

    private func makeTLSSession(now: Instant) throws(HTTPClientError) -> TLSSession {
        do throws(TLSError) {
            if let context, now < context.made + Self.contextTime {
                return try context.context.makeClientSession(host: key.target.host)
            }
            let made = try TLSContext.client(
                authority: key.authority, certificate: key.certificate, key: key.key ?? key.certificate,
                protocols: ["h2", "http/1.1"])
            context = (now, made)
            return try made.makeClientSession(host: key.target.host)
        } catch {
            throw HTTPClientError(.invalidRequest, detail: error.description)
        }
    }

    // MARK: Result of the opening

    func opened(_ connection: HTTP2Connection) {
        guard opening?.connection === connection else { return }
        opening = nil
        connections.append(connection)
        flush()
    }

    func openedWithoutHTTP2(_ connection: HTTP2Connection) {
        guard opening?.connection === connection else { return }
        opening = nil
        _ = connection.close()
        handOver()
    }

    func openingFailed(_ connection: HTTP2Connection, _ error: HTTPClientError) {
        guard let opening, opening.connection === connection else { return }
        opening.connection = nil
        // After a certificate error, other addresses are not tried, because they would have the same certificate.
        if error.code == .tls || error.code == .proxyRefused { failed(error) } else { connectNext(opening, error) }
    }

    private func failed(_ error: HTTPClientError) {
        opening = nil
        context = nil
        let now = loop.now
        nextSpare = now + Self.sparePause
        // If a good connection exists, the waiting requests do not fail, because they can use it.
        guard !connections.contains(where: \.isGood) else { return }
        failWaiting(error)
        flushSoon()
    }
}
