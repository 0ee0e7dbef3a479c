//! Pages: rendered here, usable without scripts, styled by one file.

use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::answer::{self, Answer};
use crate::checkout::{Hold, Payment};
use crate::markup::{money, text};
use crate::model::{Kind, Purchase, Reservation, unguessable};
use crate::payments::Till;
use crate::store::{ProductView, ReservationView};

const CSS: &str = include_str!("shop.css");

/// `GET /assets/shop.css`
#[utoipa::path(get, path = "/assets/shop.css", tag = "public",
    responses((status = 200, description = "How the pages look.", body = String, content_type = "text/css")))]
pub(super) async fn css() -> Response {
    let mut response = Response::new(CSS.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/css; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

fn frame(title: &str, main: &str) -> String {
    let title = text(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"/assets/shop.css\">\n</head>\n\
         <body>\n<main>\n{main}</main>\n</body>\n</html>\n"
    )
}

/// The time of day of Unix milliseconds.
fn time_of_day(ms: i64) -> String {
    let seconds = ms.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn time_left(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

fn units(count: i64) -> String {
    if count == 1 { "1 unit".to_owned() } else { format!("{count} units") }
}

/// What is reserved: how many, and which where they are numbered.
fn reserved(hold: &Reservation) -> String {
    let count = units(hold.quantity);
    if hold.units.is_empty() { count } else { format!("{count} ({})", text(&hold.units.join(", "))) }
}

/// A form without a key would be refused, so each carries one that nobody else has.
fn key_field() -> Result<String, getrandom::Error> {
    Ok(format!("<input type=\"hidden\" name=\"idempotency_key\" value=\"{}\">", unguessable("form-")?))
}

/// The product's page.
pub(super) fn product(view: &ProductView) -> Result<String, getrandom::Error> {
    let product = &view.product;
    let (id, name) = (text(&product.id), text(&product.name));
    let offer = match &view.own {
        Some(own) if own.state == Hold::Sold => format!(
            "<p class=\"note good\"><strong>It is yours.</strong> You have bought {}.</p>\n\
             <p><a class=\"button\" href=\"{}\">See your purchase</a></p>\n",
            reserved(own),
            own.page()
        ),
        Some(own) if own.state != Hold::Expired => format!(
            "<p class=\"note\">You hold {} until {}: {} left when this page was loaded.</p>\n\
             <p><a class=\"button\" href=\"{}\">Go to your checkout</a></p>\n",
            reserved(own),
            time_of_day(own.expires_at),
            time_left(own.time_left_ms(view.now).unwrap_or_default()),
            own.page()
        ),
        _ if view.stopped => {
            "<p class=\"note\"><strong>Its sale is stopped for now.</strong> The shop is checking how many \
                              there are; look again later.</p>\n"
                .to_owned()
        }
        _ if view.left.available > 0 => reserve(view)?,
        _ if view.left.held > 0 => format!(
            "<p class=\"note\"><strong>All of them are in other baskets.</strong> {} may still come back.</p>\n\
             <p><a class=\"button\" href=\"/products/{id}\">Look again</a></p>\n",
            units(view.left.held)
        ),
        _ => "<p class=\"note\"><strong>Sold out.</strong> Every unit is sold.</p>\n".to_owned(),
    };
    let main = format!(
        "<h1>{name}</h1>\n<p>{}</p>\n<p class=\"price\">{}</p>\n{offer}",
        text(&product.description),
        money(product.price_minor, &product.currency)
    );
    Ok(frame(&product.name, &main))
}

/// The forms to reserve with: so many, and of a numbered product also these.
fn reserve(view: &ProductView) -> Result<String, getrandom::Error> {
    let product = &view.product;
    let (action, left) = (format!("/products/{}/reservations", text(&product.id)), view.left.available);
    let most = product.max_quantity.min(left);
    let quantity = if most > 1 {
        let options: String = (1..=most).map(|n| format!("<option value=\"{n}\">{n}</option>")).collect();
        format!(
            "<label for=\"quantity\">How many</label>\n<select id=\"quantity\" name=\"quantity\">{options}</select>\n"
        )
    } else {
        String::new()
    };
    let label = match product.kind {
        Kind::Count => "Reserve",
        Kind::Units => "Reserve the next free",
    };
    let any = format!(
        "<p>{left} left.</p>\n<form method=\"post\" action=\"{action}\">\n{}\n{quantity}\
         <button class=\"button\" type=\"submit\">{label}</button>\n</form>\n",
        key_field()?
    );
    if product.kind == Kind::Count {
        return Ok(any);
    }
    let boxes: String = view
        .free
        .iter()
        .enumerate()
        .map(|(index, label)| {
            let label = text(label);
            format!(
                "<div class=\"unit\"><input type=\"checkbox\" id=\"unit-{index}\" name=\"units\" value=\"{label}\">\
                 <label for=\"unit-{index}\">{label}</label></div>\n"
            )
        })
        .collect();
    // The field that is empty tells a choice of none from a form without a choice.
    let other = if i64::try_from(view.free.len()).is_ok_and(|shown| shown < left) {
        "<label for=\"unit-other\">Another one, which is not listed</label>\n\
         <input id=\"unit-other\" name=\"units\" maxlength=\"40\" autocomplete=\"off\">\n"
    } else {
        "<input type=\"hidden\" name=\"units\" value=\"\">\n"
    };
    Ok(format!(
        "{any}<form method=\"post\" action=\"{action}\">\n{}\n<fieldset>\n<legend>Or choose, {} at most</legend>\n\
         <div class=\"units\">\n{boxes}</div>\n{other}</fieldset>\n\
         <button class=\"button\" type=\"submit\">Reserve these</button>\n</form>\n",
        key_field()?,
        units(most)
    ))
}

/// The checkout of a hold that nobody is paying for, and after how many seconds it is over.
pub(super) fn checkout(
    view: &ReservationView,
    till: &Till,
    extension_ms: i64,
) -> Result<(String, Option<i64>), getrandom::Error> {
    let hold = &view.reservation;
    let name = text(&view.product_name);
    let back = format!("<p><a href=\"/products/{}\">Back to the product</a></p>\n", text(&hold.product));
    let over = match hold.state {
        Hold::Expired => Some("The time to pay is over and your unit went back to the others."),
        Hold::Cancelled => Some("You gave your unit back."),
        Hold::Held | Hold::Paying | Hold::Capturing | Hold::Sold => None,
    };
    if let Some(over) = over {
        let money =
            answer::money(view.purchase.as_ref().map_or(Payment::Declined, |purchase| purchase.state));
        let main = format!("<h1>{name}</h1>\n<p class=\"note\">{over} {money}</p>\n{back}");
        return Ok((frame("Checkout", &main), None));
    }
    let left = hold.expires_at - view.now;
    let declined = view.purchase.as_ref().filter(|purchase| purchase.reason.is_some()).map_or(
        String::new(),
        |purchase| {
            format!(
                "<p class=\"note bad\" role=\"alert\">Your last payment did not buy it. {} {}</p>\n",
                text(purchase.reason.as_deref().unwrap_or_default()),
                answer::money(purchase.state)
            )
        },
    );
    let cards: String = till
        .offers
        .iter()
        .enumerate()
        .map(|(index, offer)| {
            let checked = if index == 0 { " checked" } else { "" };
            format!(
                "<div class=\"choice\"><input type=\"radio\" id=\"method-{index}\" name=\"payment_method\" value=\"{}\"{checked}>\
                 <label for=\"method-{index}\"><span class=\"number\">{}</span> {}</label></div>\n",
                text(&offer.value),
                text(&offer.label),
                text(&offer.detail)
            )
        })
        .collect();
    let amount = money(hold.amount_minor, &hold.currency);
    let extension = if extension_ms > 0 && !hold.extended {
        format!(
            "<form method=\"post\" action=\"/reservations/{}/extension\">\n{}\n\
             <button class=\"plain\" type=\"submit\">I need {} more</button>\n</form>\n",
            text(&hold.id),
            key_field()?,
            time_left(extension_ms)
        )
    } else {
        String::new()
    };
    let pay = if till.offers.is_empty() {
        format!("<p class=\"note\">{}</p>\n", text(till.note))
    } else {
        format!(
            "<form method=\"post\" action=\"/reservations/{}/purchases\">\n{}\n\
             <fieldset>\n<legend>{}</legend>\n<p>{}</p>\n\
             {cards}</fieldset>\n<label for=\"email\">E-mail for the confirmation, if you like one</label>\n\
             <input type=\"email\" id=\"email\" name=\"email\" maxlength=\"254\" autocomplete=\"email\">\n\
             <button class=\"button\" type=\"submit\">Pay {amount}</button>\n</form>\n",
            text(&hold.id),
            key_field()?,
            text(till.title),
            text(till.note),
        )
    };
    let main = format!(
        "<h1>Checkout</h1>\n{declined}<p><strong>{name}</strong>, {}: <span class=\"price\">{amount}</span></p>\n\
         <p class=\"note\">Held for you until <strong>{}</strong>: {} left when this page was loaded.</p>\n{pay}{extension}\
         <form method=\"post\" action=\"/reservations/{id}/cancel\">\n{}\n\
         <button class=\"plain\" type=\"submit\">Give it back</button>\n</form>\n{back}",
        reserved(hold),
        time_of_day(hold.expires_at),
        time_left(left),
        key_field()?,
        id = text(&hold.id),
    );
    Ok((frame("Checkout", &main), Some(left.max(0) / 1_000 + 1)))
}

/// A purchase as it stands.
pub(super) fn purchase(purchase: &Purchase, product_name: &str) -> String {
    let hold = &purchase.reservation;
    let product = format!("<p><a href=\"/products/{}\">Back to the product</a></p>\n", text(&hold.product));
    let retry = if hold.state == Hold::Held {
        format!(
            "<p>Your hold lasts until {}.</p>\n<p><a class=\"button\" href=\"{}\">Pay another way</a></p>\n",
            time_of_day(hold.expires_at),
            hold.page()
        )
    } else {
        product
    };
    let amount = money(hold.amount_minor, &hold.currency);
    let (title, note) = match (purchase.state, &purchase.reason) {
        (Payment::Sold, _) => (
            "It is yours",
            format!(
                "<p class=\"note good\">You have bought <strong>{}</strong>, {}, for {amount}.</p>\n\
                 <p>Your purchase: <span class=\"number\">{}</span></p>\n",
                text(product_name),
                reserved(hold),
                text(&purchase.id)
            ),
        ),
        (Payment::Authorising, _) if purchase.redirect_url.is_some() => (
            "Your bank wants to know",
            format!(
                "<p class=\"note\" role=\"status\">Your payment of {amount} for <strong>{}</strong> has to be confirmed by you, \
                 on your bank's own page, before {}. From there you come back here.</p>\n\
                 <p><a class=\"button\" rel=\"noreferrer\" href=\"{}\">Go to your bank</a></p>\n",
                text(product_name),
                time_of_day(hold.expires_at),
                text(purchase.redirect_url.as_deref().unwrap_or_default())
            ),
        ),
        (Payment::Authorising | Payment::Capturing, _) => (
            "Waiting for your bank",
            format!(
                "<p class=\"note\" role=\"status\">Your payment of {amount} for <strong>{}</strong> is under way. This page \
                 looks again by itself every few seconds; you need do nothing.</p>\n",
                text(product_name)
            ),
        ),
        // Whatever came before it: money was taken.
        (Payment::Refunding | Payment::Refunded, _) => (
            "Too late, and your money comes back",
            format!(
                "<p class=\"note bad\" role=\"alert\">There was no hold any more for your payment of {amount}. {}</p>\n\
                 {retry}",
                answer::money(purchase.state)
            ),
        ),
        (_, Some(reason)) => (
            "The payment was not taken",
            format!(
                "<p class=\"note bad\" role=\"alert\">{} {}</p>\n{retry}",
                text(reason),
                answer::money(purchase.state)
            ),
        ),
        (_, None) if hold.state == Hold::Cancelled => (
            "You gave it back, and nothing was charged",
            format!(
                "<p class=\"note\" role=\"status\">You gave your unit back before the payment was certain. Whatever your bank \
                 set aside is released.</p>\n{retry}"
            ),
        ),
        (_, None) => (
            "Too late, and nothing was charged",
            format!(
                "<p class=\"note bad\" role=\"alert\">Your hold was over before the payment was certain. Whatever your bank \
                 set aside is released.</p>\n{retry}"
            ),
        ),
    };
    frame(title, &format!("<h1>{title}</h1>\n{note}"))
}

/// What went wrong, and where to go from here.
pub(super) fn problem(answer: &Answer) -> String {
    let title = answer.text("title");
    let on = answer.page.as_deref().map_or(String::new(), |page| {
        let label = if page.starts_with("/products/") {
            "Back to the product"
        } else if page.starts_with("/checkout/") {
            "Back to the checkout"
        } else {
            "See the payment"
        };
        format!("<p><a class=\"button\" href=\"{}\">{label}</a></p>\n", text(page))
    });
    let main = format!(
        "<h1>{}</h1>\n<p class=\"note bad\" role=\"alert\">{}</p>\n{on}",
        text(title),
        text(answer.text("detail"))
    );
    frame(title, &main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(text("<a href=\"x\" title='y'>&"), "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
        let answer = Answer::problem(404, "x", "<script>", "\"><img>").page("/products/\"><b>");
        let page = problem(&answer);
        assert!(!page.contains("<script>") && !page.contains("<img>") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn times_are_written_for_people() {
        assert_eq!(time_of_day(1_700_000_000_000), "22:13:20 UTC");
        assert_eq!(time_left(272_999), "4 min 32 s");
        assert_eq!(time_left(9_000), "9 s");
        assert_eq!(time_left(-5), "0 s");
    }
}
