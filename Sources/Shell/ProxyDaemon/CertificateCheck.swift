import Addressing
import Crypto
import FoundationEssentials
package import Timekeeping

/// The result of `sippushd cert check`: the certificates that phones and other nodes get, and their problems.
package struct CertificateCheck {
    /// The description of each certificate, on one line.
    package private(set) var lines: [String] = []
    package private(set) var faults: [Fault] = []
    /// The description of each problem, on one line.
    package var problems: [String] { faults.map(\.text) }

    /// A problem of a certificate.
    package struct Fault: Hashable, Sendable {
        package enum Kind: Hashable, Sendable {
            case notSet, unreadable, missingName, notYetValid, expired, expiresSoon
            /// No authority that this machine trusts has issued the certificate.
            case untrusted
        }

        package let kind: Kind
        /// Whether the certificate is the one that other nodes of the cluster get.
        package let isForNodes: Bool
        package let text: String
    }

    private let date: UnixTime

    /// A certificate that is valid for less than 14 days is treated as a problem, because it should be renewed already.
    private static let warningTime: Duration = .seconds(14 * 86_400)

    package init(on date: UnixTime) { self.date = date }

    /// Checks the certificates in the settings. Each name under which phones know the daemon must be in one of the
    /// certificates for phones.
    package mutating func check(_ settings: DaemonSettings, authorities: String?) {
        checkForPhones(settings, authorities: authorities)
        checkForNodes(settings.cluster)
    }

    /// Checks this node's certificate as other nodes do.
    private mutating func checkForNodes(_ cluster: ClusterSettings) {
        guard let certificate = cluster.certFile, let key = cluster.keyFile else { return }
        let place = cluster.advertise ?? cluster.listen
        let address = place.map(\.address).flatMap { $0.isUnspecified ? nil : $0.description }
        guard let report = report((certificate, key), address.map { [$0] } ?? [], cluster.caFile, isForNodes: true)
        else { return }
        for address in report.missingNames {
            add(
                .missingName, "\(certificate): it does not cover \(address), at which other nodes reach this node",
                isForNodes: true)
        }
        if !report.isForClients {
            add(
                .untrusted, "\(certificate): it is for servers only, but a node also connects to other nodes",
                isForNodes: true)
        }
    }

    private mutating func checkForPhones(_ settings: DaemonSettings, authorities: String?) {
        var names = settings.advertise.map { [Self.host($0)] } ?? []
        names += settings.domains.filter { !names.contains($0) }
        let pairs = settings.tls.files
        guard !pairs.isEmpty else { return add(.notSet, "the settings name no certificate: set tls.cert-file") }
        var missing = Set(names)
        for pair in pairs {
            guard let report = report(pair, names, authorities) else { continue }
            missing.formIntersection(report.missingNames)
        }
        for name in names where missing.contains(name) {
            add(.missingName, "\(name): no certificate covers this name, which phones use for this daemon")
        }
    }

    /// Checks one certificate, which must contain all given names.
    package mutating func check(certificate: String, key: String, names: [String], authorities: String?) {
        guard let report = report((certificate, key), names, authorities) else { return }
        for name in report.missingNames { add(.missingName, "\(certificate): it does not cover \(name)") }
    }

    private mutating func report(
        _ pair: (certificate: String, key: String), _ names: [String], _ authorities: String?,
        isForNodes: Bool = false
    ) -> CertificateReport? {
        do throws(TLSError) {
            let identity = TLSIdentity(certificate: .file(pair.certificate), key: .file(pair.key))
            let report = try CertificateReport(identity, for: names, authorities: authorities)
            let days = (report.ends.seconds - date.seconds) / 86_400
            lines.append(
                "\(pair.certificate): for \(report.names.joined(separator: ", ")); until \(Self.day(report.ends)) (\(days) days)"
            )
            if report.begins > date {
                add(
                    .notYetValid, "\(pair.certificate): it is not valid before \(Self.day(report.begins))",
                    isForNodes: isForNodes)
            }
            if report.ends <= date {
                add(
                    .expired, "\(pair.certificate): it expired on \(Self.day(report.ends))", isForNodes: isForNodes)
            } else if report.ends < date + Self.warningTime {
                add(
                    .expiresSoon, "\(pair.certificate): it expires on \(Self.day(report.ends)), in \(days) days",
                    isForNodes: isForNodes)
            }
            // The chain is checked only within the certificate's dates, because phones never trust a certificate
            // outside its dates.
            if report.begins <= date, report.ends > date, let fault = report.chainFault {
                let peers = isForNodes ? "other nodes" : "phones"
                add(
                    .untrusted, "\(pair.certificate): \(peers) do not trust it: \(fault)", isForNodes: isForNodes)
            }
            return report
        } catch {
            let words = "\(error)"
            let saysWhere = words.contains(pair.certificate) || words.contains(pair.key)
            add(.unreadable, saysWhere ? words : "\(pair.certificate): \(words)", isForNodes: isForNodes)
            return nil
        }
    }

    private mutating func add(_ kind: Fault.Kind, _ text: String, isForNodes: Bool = false) {
        faults.append(Fault(kind: kind, isForNodes: isForNodes, text: text))
    }

    static func host(_ text: String) -> String {
        guard let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else { return text }
        return String(text[..<colon])
    }

    private static func day(_ time: UnixTime) -> String {
        Date(timeIntervalSince1970: Double(time.seconds)).formatted(.iso8601.year().month().day())
    }
}

extension TLSSettings {
    /// The files of each certificate and its private key.
    var files: [(certificate: String, key: String)] {
        let own = certFile.flatMap { file in keyFile.map { (file, $0) } }
        return (own.map { [$0] } ?? [])
            + certificates.sorted { $0.key < $1.key }.map { ($0.value.certFile, $0.value.keyFile) }
    }
}
