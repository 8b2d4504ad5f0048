import Control
import HTTPServices
import QRCode
import Settings

// Commands for links and QR codes with which phones set up their accounts.

private let formats = ["terminal", "svg", "png", "url"]

let userQRCommand = Command(
    name: "user qr",
    summary:
        "Make a link with which one phone gets the user's account, and show the link as a QR code. An earlier unused link of the user becomes invalid.",
    arguments: userArgument,
    options: [
        Command.configOption,
        Command.Option(
            name: "--expires", value: "TIME",
            help: "How long the link is valid, 1m to 7d (default: the setting 'api.provisioning.expires', 15m)."),
        Command.Option(
            name: "--format", value: "FORMAT",
            help:
                "The form of the output: 'terminal' (default), 'svg' or 'png' for a picture, or 'url' for the link alone.",
            choices: formats),
        Command.Option(
            name: "--new-password", value: nil,
            help: "Give the user a new password when a phone uses the link. Apps of Acrobits need a new password."),
        Command.Option(
            name: "--cloud-id", value: "ID",
            help:
                "Make the QR code for the Acrobits app with this Cloud ID. The external provisioning of the app must name this daemon (docs/Provisioning.md)."
        ),
    ],
    examples: ["user qr bob", "user qr bob --expires 1h --new-password", "user qr bob --format png > bob.png"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyUser()
    let format = invocation.value("--format") ?? "terminal"
    guard formats.contains(format) else { throw .usage("--format takes \(formats.joined(separator: ", "))") }
    var request = ProvisionLinkRequest()
    if let text = invocation.value("--expires") {
        guard let time = QuantityText.duration(text), ProvisioningSettings.lives.contains(time) else {
            throw .usage("--expires takes a time such as 15m, from 1m to 7d")
        }
        request.expiresAfter = time.components.seconds
    }
    let cloudID = invocation.value("--cloud-id")
    if let cloudID {
        guard isCloudID(cloudID) else { throw .usage("--cloud-id takes letters and digits, and * at the end") }
        guard invocation.has("--new-password") else { throw .usage("--cloud-id needs --new-password") }
    }
    if invocation.has("--new-password") { request.newPassword = true }
    let control = try ControlConnection(invocation)
    let link: ProvisionLinkAnswer = try await control.post(
        "/v1/users/\(pathSegment(name))/provisioning", request, timeout: .seconds(30))
    let text = cloudID.map { acrobitsText(of: link, cloudID: $0) } ?? link.url
    guard format != "url" else { return say(text) }
    guard let code = QRMatrix(text) else { throw .failed("the link is too long for a QR code: \(text)") }
    switch format {
    case "svg": say(text: code.svg)
    case "png":
        guard emit(picture: code.png()) else {
            throw .usage("--format png writes a picture: redirect the output to a file")
        }
    default:
        draw(code.lines, coloured: code.colouredLines)
        say(text)
        say(advice(on: link, isForAcrobits: cloudID != nil))
    }
}

private func advice(on link: ProvisionLinkAnswer, isForAcrobits: Bool) -> [String] {
    [
        "\(link.user) scans the code with \(isForAcrobits ? "the app" : "Linphone"). The link works once, until \(timeText(link.expiresAt)).",
        link.newPassword
            ? "Then the user has a new password, and other phones of the user need a link of their own."
            : "Anybody who has the link can set up the account: show it to the user alone.",
    ]
}

private func isCloudID(_ text: String) -> Bool {
    let letters = text.hasSuffix("*") ? text.dropLast() : text[...]
    return !letters.isEmpty && letters.utf8.count <= 64
        && letters.unicodeScalars.allSatisfy { $0.isASCII && $0.properties.isAlphabetic || ("0"..."9").contains($0) }
}

/// The text of a QR code for Acrobits' Cloud Softphone. The token takes the place of the password.
private func acrobitsText(of link: ProvisionLinkAnswer, cloudID: String) -> String {
    let token = link.url.split(separator: "/").last.map(String.init) ?? ""
    return "csc:\(pathSegment(link.user)):\(pathSegment(token))@\(cloudID)"
}

let userLinksCommand = Command(
    name: "user links",
    summary:
        "List the links with which phones get accounts: unused links, and links that were used in the last 30 days.",
    options: Command.listOptions, examples: ["user links"]
) { invocation throws(Command.Failure) in
    let links = try await ControlConnection(invocation)
        .list("/v1/provisioning", \ProvisionLinkPage.links, next: \.next)
    if try invocation.printJSON(links) { return }
    let table = Table(
        ("USER", 32), ("MADE", 22), ("UNTIL", 22), ("PASSWORD", 10), ("BY", 24), ("USED", 0))
    for link in links {
        let use = link.usedAt.map { "\(timeText($0)) from \(link.usedFrom ?? "-")" } ?? "no"
        table.row(
            link.user, timeText(link.createdAt), timeText(link.expiresAt), link.newPassword ? "new" : "kept",
            link.createdBy ?? "-", use)
    }
}

let userRevokeLinkCommand = Command(
    name: "user revoke-link", summary: "Revoke a user's unused link.", arguments: userArgument,
    options: [Command.configOption], examples: ["user revoke-link bob"]
) { invocation throws(Command.Failure) in
    let name = try invocation.onlyUser()
    try await ControlConnection(invocation).delete("/v1/users/\(pathSegment(name))/provisioning")
    say("revoked")
}
