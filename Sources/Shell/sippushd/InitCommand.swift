import Glibc
import ProxyDaemon
import Reactor
import Settings
import Timekeeping

let initCommand = Command(
    name: "init",
    summary:
        "Write a configuration file with which the daemon can start. Without --domain, this command asks for the domain, the PBX, TLS and the push providers.",
    options: [
        Command.configOption,
        Command.Option(
            name: "--domain", value: "DOMAIN",
            help: "The domain of the users. With this option, the command asks no questions."),
        Command.Option(name: "--pbx", value: "ADDRESS[:PORT]", help: "The IP address of the PBX."),
        Command.Option(
            name: "--tls-cert", value: "FILE", help: "The certificate that phones see, with its chain, PEM."),
        Command.Option(name: "--tls-key", value: "FILE", help: "The private key of the certificate for phones, PEM."),
        Command.Option(name: "--apns-topic", value: "BUNDLE", help: "The bundle identifier of the iOS app."),
        Command.Option(name: "--apns-team", value: "TEAM", help: "Apple's team identifier, ten characters."),
        Command.Option(
            name: "--apns-key-id", value: "KEY", help: "The identifier of the signing key from Apple, ten characters."),
        Command.Option(name: "--apns-key", value: "FILE", help: "The signing key from Apple, a .p8 file."),
        Command.Option(name: "--fcm-account", value: "FILE", help: "The service account from Google, a JSON file."),
        Command.Option(
            name: "--webpush-key", value: "FILE",
            help: "The VAPID key for pushes to browsers, PEM (docs/Providers.md, Web Push)."),
        Command.Option(
            name: "--webpush-contact", value: "URI",
            help: "The mailto: or https: address at which push services can reach you about problems."),
        Command.Option(
            name: "--acrobits", value: nil,
            help: "Wake the apps Cloud Softphone and Groundwire through Acrobits' push server."),
        Command.Option(
            name: "--rustore-project", value: "PROJECT", help: "The identifier of the project in RuStore's console."),
        Command.Option(
            name: "--rustore-token", value: "FILE", help: "A file with the service token of the RuStore project."),
        Command.Option(
            name: "--hms-app", value: "APP", help: "The app's id in Huawei's AppGallery Connect."),
        Command.Option(
            name: "--hms-secret", value: "FILE", help: "A file with the client secret of the Huawei app."),
        Command.Option(
            name: "--http-app", value: "NAME",
            help: "The name of the app of your own push service. Phones send this name as 'pn-param'."),
        Command.Option(
            name: "--http-url", value: "URL",
            help:
                "The URL of your own push service. The daemon replaces '{{token}}' in the URL by the phone's push token."
        ),
        Command.Option(
            name: "--force", value: nil, help: "Replace an existing file. The command keeps the old file as FILE.old."),
    ],
    examples: ["init", "init --domain example.net --pbx 192.0.2.10 --fcm-account /etc/sippushd/firebase.json"]
) { invocation throws(Command.Failure) in
    let path = invocation.configPath
    let old = try invocation.oldConfiguration(at: path)
    let answers: NewSettings
    if let domain = invocation.value("--domain") {
        answers = try invocation.newSettings(domain: domain)
    } else {
        guard isatty(STDIN_FILENO) == 1 else {
            throw .usage("expected --domain, because there is no terminal for questions")
        }
        answers = try InitQuestions.answers(by: ask)
    }
    let text: String
    do throws(SettingComplaint) { text = try answers.yaml() } catch { throw .failed(error.sentence) }
    let settings: DaemonSettings
    do throws(SettingsError) {
        settings = try DaemonSettings(yaml: Array(text.utf8), file: path)
    } catch {
        throw .failed(text: "the answers make no valid configuration\n\(error.description)")
    }
    let file = try NewFile(path: path, mode: 0o640, replaces: old != nil)
    try file.write(text)
    // Only the file's owner and the daemon's group can read the configuration file.
    if geteuid() == 0, let group = unsafe getgrnam("sippushd") { try file.give(toGroup: unsafe group.pointee.gr_gid) }
    if old == .other { try keep(path) }
    try file.finish()
    say(nextSteps(path, settings, answers.domain))
}

/// The kind of configuration file that already exists.
private enum OldConfiguration {
    /// The sample that the package installs, which can be replaced because it contains no choices of an operator.
    case sample
    case other
}

extension Command.Invocation {
    /// - Throws: an error if the existing configuration file must not be replaced.
    fileprivate func oldConfiguration(at path: String) throws(Command.Failure) -> OldConfiguration? {
        guard unsafe access(path, F_OK) == 0 else { return nil }
        let bytes = try? SettingsFile.bytes(at: path, limit: 1 << 20)
        if bytes == Array(DaemonSettings.sample.utf8) { return .sample }
        guard has("--force") else {
            throw .failed(
                "\(path) exists already and is unchanged; --force writes a new file and keeps the old one as \(path).old"
            )
        }
        return .other
    }

    /// Returns the settings from the command's options.
    fileprivate func newSettings(domain: String) throws(Command.Failure) -> NewSettings {
        var answers = NewSettings(domain: domain)
        answers.pbx = value("--pbx")
        if let pair = try together(["--tls-cert", "--tls-key"]) { answers.certificate = (pair[0], pair[1]) }
        if let words = try together(["--apns-topic", "--apns-team", "--apns-key-id", "--apns-key"]) {
            answers.apple = NewSettings.Apple(topic: words[0], team: words[1], keyID: words[2], keyFile: words[3])
        }
        answers.googleAccount = value("--fcm-account")
        if let pair = try together(["--webpush-key", "--webpush-contact"]) {
            answers.webPush = NewSettings.WebPush(keyFile: pair[0], contact: pair[1])
        }
        answers.hasAcrobits = has("--acrobits")
        if let pair = try together(["--rustore-project", "--rustore-token"]) {
            answers.ruStore = NewSettings.RuStore(project: pair[0], serviceToken: try secret(inFile: pair[1]))
        }
        if let pair = try together(["--hms-app", "--hms-secret"]) {
            answers.huawei = NewSettings.Huawei(app: pair[0], clientSecret: try secret(inFile: pair[1]))
        }
        if let pair = try together(["--http-app", "--http-url"]) {
            answers.ownService = NewSettings.OwnService(app: pair[0], url: pair[1])
        }
        return answers
    }

    /// Returns the secret in a file. A secret in the command line would be visible to all users of the machine.
    private func secret(inFile path: String) throws(Command.Failure) -> String {
        let bytes: [UInt8]
        do throws(SettingsError) {
            bytes = try SettingsFile.bytes(at: path, limit: 4096)
        } catch {
            throw .failed(error.description)
        }
        let text = String(decoding: bytes, as: UTF8.self)
        guard let line = text.split(whereSeparator: \.isNewline).first, !line.isEmpty else {
            throw .failed("\(path): expected one line with the secret")
        }
        return String(line)
    }

    /// Returns the values of options that must be given together or not at all.
    private func together(_ names: [String]) throws(Command.Failure) -> [String]? {
        let values = names.compactMap { value($0) }
        guard !values.isEmpty else { return nil }
        guard values.count == names.count else { throw .usage("expected all of \(names.joined(separator: ", "))") }
        return values
    }
}

/// Asks for the most important settings on a terminal.
enum InitQuestions {
    /// Asks all questions of `sippushd init`. The closure `ask` returns the answer to a question; `nil` ends the
    /// command.
    static func answers(by ask: (String) -> String?) throws(Command.Failure) -> NewSettings {
        func answer(_ question: String) throws(Command.Failure) -> String {
            guard let text = ask(question) else { throw .failed("a question got no answer, so no file is written") }
            return text
        }
        func required(_ question: String) throws(Command.Failure) -> String {
            while true {
                let text = try answer(question)
                if !text.isEmpty { return text }
            }
        }
        func yes(_ question: String) throws(Command.Failure) -> Bool {
            while true {
                switch try answer(question).lowercased() {
                case "yes", "y": return true
                case "no", "n", "": return false
                default: continue
                }
            }
        }
        var answers = NewSettings(domain: try required("Domain of the users, such as example.net:"))
        let pbx = try answer("IP address of the PBX, with :PORT if it is not 5060 (empty: none yet):")
        if !pbx.isEmpty { answers.pbx = pbx }
        let certificate = try answer("Certificate file for TLS, PEM with its chain (empty: no TLS):")
        if !certificate.isEmpty {
            answers.certificate = (certificate, try required("Private key of this certificate, PEM:"))
        }
        let key = try answer("Apple's signing key, a .p8 file (empty: no iPhones):")
        if !key.isEmpty {
            answers.apple = NewSettings.Apple(
                topic: try required("Bundle identifier of the iOS app, such as com.example.phone:"),
                team: try required("Apple's team identifier, ten characters:"),
                keyID: try required("Identifier of Apple's signing key, ten characters:"), keyFile: key)
        }
        let account = try answer("Google's service account, a JSON file (empty: no Android phones):")
        if !account.isEmpty { answers.googleAccount = account }
        let vapid = try answer("VAPID key for browsers, PEM (empty: no Web Push):")
        if !vapid.isEmpty {
            let contact = try required("Address at which push services can reach you, such as mailto:push@example.net:")
            answers.webPush = NewSettings.WebPush(keyFile: vapid, contact: contact)
        }
        answers.hasAcrobits = try yes(
            "Wake Cloud Softphone or Groundwire through Acrobits' push server? (yes; empty: no)")
        let project = try answer("Identifier of your RuStore project (empty: no RuStore):")
        if !project.isEmpty {
            answers.ruStore = NewSettings.RuStore(
                project: project, serviceToken: try required("Service token of this project, from RuStore's console:"))
        }
        let app = try answer("Identifier of your app in Huawei's AppGallery Connect (empty: no Huawei phones):")
        if !app.isEmpty {
            answers.huawei = NewSettings.Huawei(
                app: app, clientSecret: try required("Client secret of this app, from AppGallery Connect:"))
        }
        let url = try answer("URL of your own push service, with {{token}} (empty: none):")
        if !url.isEmpty {
            let app = try required("Name of the app of this push service, which phones send as pn-param:")
            answers.ownService = NewSettings.OwnService(app: app, url: url)
        }
        return answers
    }
}

/// Gives the old configuration file a second name before the new file takes its name.
private func keep(_ path: String) throws(Command.Failure) {
    let copy = path + ".old"
    _ = unsafe unlink(copy)
    guard unsafe link(path, copy) == 0 else {
        throw .failed("the old file \(path) cannot be kept as \(copy): \(systemReason())")
    }
}

private func nextSteps(_ path: String, _ settings: DaemonSettings, _ domain: String) -> [String] {
    var lines = ["\(path) is written."]
    let date = SystemClock.moment.date
    let problems = SetupCheck.problems(of: settings, in: path, on: date)
    if !problems.isEmpty {
        lines.append(
            "Files named in the configuration are missing or wrong. The daemon's group, and nobody else, must be able to read each file:"
        )
        lines.append("  install -m 0640 -g sippushd FILE /etc/sippushd/")
        lines += problems.map { "  " + $0 }
    }
    lines += (SetupCheck.unseenCredentials(of: settings, in: path, on: date) + SetupCheck.notes(of: settings)).map {
        "note: " + $0
    }
    return lines + [
        "Next:",
        "  sippushd check-config             says what is wrong with the file",
        "  systemctl enable --now sippushd   starts the daemon",
        "  sippushd user add bob@\(domain)", "  sippushd provider list",
    ]
}
