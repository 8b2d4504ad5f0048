import Control
import HTTPServices
import ProxyDaemon
import ProxyRuntime

let doctorCommand = Command(
    name: "doctor",
    summary:
        "Examine settings, files, certificates, DNS, providers, peers and the machine, and print a cure for each problem. This command changes nothing.",
    options: [
        Command.configOption,
        Command.Option(
            name: "--unit", value: "FILE",
            help:
                "The file of the systemd unit, which names the service's user (default: the system's sippushd.service)."
        ),
        Command.Option(
            name: "--user", value: "USER", help: "The user of the service (default: the user in the systemd unit)."),
        Command.Option(
            name: "--ca", value: "FILE",
            help: "A PEM file with the certificate authorities that phones trust (default: the system's)."),
        Command.Option(name: "--json", value: nil, help: "Print the results of all checks as JSON."),
    ],
    examples: ["doctor", "doctor --user sippushd --json"]
) { invocation throws(Command.Failure) in
    let findings = await invocation.diagnosis()
    if try !invocation.printJSON(findings) {
        for finding in findings {
            let cure = finding.cure.map { " => \($0)" } ?? ""
            say(finding.level.rawValue.padded(to: 7) + finding.area.padded(to: 14) + finding.words + cure)
        }
    }
    if findings.worst != .ok { throw .ended(Int32(findings.worst.weight)) }
}

extension Command.Invocation {
    fileprivate func diagnosis() async -> [Finding] {
        let settings: DaemonSettings
        do throws(Command.Failure) {
            settings = try self.settings()
        } catch {
            return Doctor.findings(error.lines.dropFirst().joined(separator: "; "))
        }
        let service = ServiceFacts(unitFile: value("--unit"), user: value("--user"))
        let doctor = Doctor(settings: settings, path: configPath, service: service, authorities: value("--ca"))
        return doctor.findings(
            users: settings.auth == .digest ? await users(settings) : nil, state: await state(settings),
            pbxs: await pbxs(settings))
    }

    private struct Readiness: Decodable {
        let status: String
        let detail: String?
    }

    /// The state that the daemon reports; `nil` if no daemon runs, or the present user may not ask the daemon.
    private func state(_ settings: DaemonSettings) async -> DaemonState? {
        let control = ControlConnection(path: settings.control)
        guard (try? control.isAlive) == true else { return nil }
        do throws(Command.Failure) {
            let answer: Readiness = try await control.get("/readyz")
            return answer.status == "ready" ? .ready : .degraded(answer.detail ?? answer.status)
        } catch {
            return .notReady(error.lines.joined(separator: "; "))
        }
    }

    /// The PBXs at which the daemon keeps users registered; `nil` if no daemon runs, or the present user may not ask
    /// the daemon.
    private func pbxs(_ settings: DaemonSettings) async -> [UpstreamDomainReport]? {
        guard !settings.registerUpstream.isEmpty else { return nil }
        let control = ControlConnection(path: settings.control)
        guard (try? control.isAlive) == true else { return nil }
        return try? await control.get("/v1/upstream-domains")
    }

    /// Returns the first users of the daemon or, if no daemon runs, of the store; `nil` if the users cannot be read.
    private func users(_ settings: DaemonSettings) async -> (names: [String], isWhole: Bool)? {
        guard let place = try? settings.storePlace() else { return nil }
        let store = OfflineStore(place, apps: settings.api.mobileApps)
        do throws(Command.Failure) {
            let control = ControlConnection(path: settings.control)
            if try control.isAlive {
                let page: UserPage = try await control.get("/v1/users?limit=1000")
                return (page.users.map(\.name), page.next == nil)
            }
            guard !store.isMissing else { return nil }
            return (try offline { () throws(StartError) in try store.users() }.map(\.name), true)
        } catch {
            return nil
        }
    }

    /// Returns the findings about the files that the service's user must be able to use.
    func serviceFindings(_ settings: DaemonSettings) -> [Finding] {
        ServiceFacts(unitFile: value("--unit"), user: value("--user")).fileFindings(of: settings, at: configPath)
    }
}

extension Command.Failure {
    var lines: [String] {
        switch self {
        case .usage(let sentence): [sentence]
        case .failed(let lines): lines
        case .ended: []
        }
    }
}
