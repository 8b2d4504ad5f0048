import HTTPServices

/// The HTTP routes for links with which phones get accounts, described for authors of clients.
extension RouteDescription {
    static let makeProvisionLink = RouteDescription(
        "makeProvisioningLink", "Make a link with which a phone can set up the user's account once",
        detail: "The user's earlier link ends, if it is unused. Only this answer contains the URL."
    ).path("user", "`user@domain`").body(ProvisionLinkRequest.self, isRequired: false)
        .answer(200, "The link", ProvisionLinkAnswer.self).problem(404, "There is no such user.")
        .problem(
            409,
            "The store has no password of the user, phones cannot reach the HTTP API safely, or there are too many links."
        )
        .notStored()

    static let provisionLinks = RouteDescription(
        "listProvisioningLinks", "Unused links, and links that were used in the last 30 days, newest first",
        detail: "The list does not contain URLs."
    ).query("user", "Only links of this user: `user@domain`.", .text(1...512))
        .query("after", "The `next` of the previous page.", .number(0...Int64.max))
        .query("limit", "The maximum number of entries on a page. The default is 100.", .number(1...1000))
        .answer(200, "A page of links", ProvisionLinkPage.self)

    static let revokeProvisionLink = RouteDescription(
        "revokeProvisioningLink", "Revoke the user's unused link"
    ).path("user", "`user@domain`").done("The link is revoked.")
        .problem(404, "The user has no unused link.").notStored()

    static let takeAccount = RouteDescription(
        "takeAccount", "A phone gets its account by a link",
        detail:
            "Only a GET of an app uses the link. All other programs get a page that does not depend on the token."
    ).path("token", "The end of the link's URL.")
        .query("client", "The form of the account. The default depends on the app.", .choice(["acrobits", "linphone"]))
        .answer(200, "The account for the app, or a web page for a browser", .text, type: "application/xml")
        .answer(200, "The account for the app, or a web page for a browser", .text, type: "text/html")
        .problem(404, "The link is unknown or has expired.")
        .problem(409, "The app needs a password, and the link has none.")
        .problem(410, "The link was used already.").problem(429, "The address has sent too many unknown links.")
        .problem(503, "The use of the link cannot be stored now. The link stays unused.")
}
